"""What may be said of a GPU: whether its numbers are the reference's, what roundings and training steps cost on it.

    python -m benchmarks.device [--quick] [--seconds N] [--device DEVICE] [--out FILE]

Prints one table, writes it as JSON, and takes under three minutes. Ends with 1 if a number differs, and with 2 where
there is no GPU. ``--device cpu`` tries the script itself on a CPU, with small sizes; what it measures says nothing of
a GPU.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from mixprec.kernels import default_backend

from ._device_equality import compare
from ._device_roundings import time_roundings
from ._device_steps import time_steps
from ._machine import machine

Row = dict[str, object]


def main() -> int:
    options = _options()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("benchmarks.device: torch finds no GPU here, so there is nothing to measure", file=sys.stderr)
        return 2
    end = time.monotonic() + options.seconds
    facts = _facts(device)
    print(", ".join(f"{name} {fact}" for name, fact in facts.items()))
    quick = options.quick or device.type == "cpu"
    rows = _section("equal to the reference", lambda: compare(device, quick))
    rows += _section("roundings, as multiples of a copy", lambda: time_roundings(device, quick))
    rows += _section("training steps, as multiples of fp32's", lambda: time_steps(device, quick, end))
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(torch.get_num_threads()) | facts, "rows": rows}, indent=1) + "\n")
    different = [row["name"] for row in rows if row.get("different")]
    print(f"wrote {path}; " + (f"DIFFERENT: {', '.join(map(str, different))}" if different else "all numbers equal"))
    return 1 if different else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Equality with the reference, and times, on a GPU.")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--seconds", type=float, default=150.0, help="after which no further recipe is begun")
    parser.add_argument("--device", default="cuda", help="such as cuda:1")
    parser.add_argument("--out", default="runs/benchmarks/device.json")
    return parser.parse_args()


def _facts(device: torch.device) -> Row:
    facts: Row = {"device": str(device), "backend": default_backend(device.type).name}
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        facts |= {"accelerator": torch.cuda.get_device_name(device), "capability": f"{major}.{minor}"}
        facts["cuda"] = torch.version.cuda
    if "triton" in sys.modules:
        facts["triton"] = sys.modules["triton"].__version__
    return facts


def _section(title: str, measure: Callable[[], list[Row]]) -> list[Row]:
    start = time.monotonic()
    print(f"\n{title}")
    rows = measure()
    print(f"{'':2}{time.monotonic() - start:.0f} s")
    return [{"section": title, **row} for row in rows]


if __name__ == "__main__":
    sys.exit(main())
