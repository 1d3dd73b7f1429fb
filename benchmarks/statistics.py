"""Times of statistics as multiples of a copy of the same fp32 tensor.

    python -m benchmarks.statistics [--quick] [--level LEVEL] [--threads N] [--processor-time] [--out FILE]

*Eight formats* are those that a run might ask about, none of them in use: a what-if. Prints a table and writes it as
JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from mixprec.kernels import Draw, Probe, cast_parameters
from mixprec.kernels.cpu import CpuBackend, level_names
from mixprec.specs import parse_cast

from ._machine import machine
from ._timing import Timing, measure

WHAT_IF = ("e4m3[tensor]", "e5m2[tensor]", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "bf16", "fp16")
OTHERS = ("e4m3[row]", "e4m3[1x128:e8m0] rceil", "nvfp4 4/6", "bf16 sr", "nf4[1x64:fp32]", "nvfp4 sr rht16")
#: Largest multiple of a copy for the eight formats in one pass.
TARGET = 6.0
COLUMNS = 2048


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.processor_time else time.perf_counter
    rows: list[dict[str, object]] = []
    for exponent in (22,) if options.quick else (22, 25):
        calls = _calls(exponent, CpuBackend(options.level))
        rows += _table(exponent, measure(calls, "copy", 5 if options.quick else 15, clock))
    facts = {**machine(options.threads), "level": options.level or level_names()[-1]}
    facts["clock"] = "processor time" if options.processor_time else "wall"
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    print(f"wrote {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times of statistics as multiples of a copy.")
    parser.add_argument("--quick", action="store_true", help="2^22 elements, few rounds")
    parser.add_argument("--level", choices=level_names(), default=None, help="instruction set; default: the best")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true", help="one thread, its processor time")
    parser.add_argument("--out", default="runs/benchmarks/statistics.json")
    options = parser.parse_args()
    if options.processor_time:
        options.threads = 1
    return options


def _calls(exponent: int, backend: CpuBackend) -> dict[str, Callable[[], object]]:
    x = torch.randn(2**exponent // COLUMNS, COLUMNS, generator=torch.Generator().manual_seed(0))
    y = torch.empty_like(x)
    probes = {cast: Probe(cast_parameters(parse_cast(cast)), Draw(1, 2, 2**62)) for cast in (*WHAT_IF, *OTHERS)}
    calls: dict[str, Callable[[], object]] = {
        "copy": lambda: y.copy_(x),
        "the tensor alone": lambda: backend.statistics(x, [], 1),
        "eight formats": lambda: backend.statistics(x, [probes[cast] for cast in WHAT_IF], 1),
        "mxfp8 axis 0": lambda: backend.statistics(x, [probes["mxfp8"]], 0),
    }
    return calls | {cast: lambda p=probe: backend.statistics(x, [p], 1) for cast, probe in probes.items()}


def _table(exponent: int, timings: dict[str, Timing]) -> list[dict[str, object]]:
    print(
        f"\nstatistics of 2^{exponent} elements\n{'':26}{'ratio':>8}{'quartiles':>16}{'best':>8}{'ms':>9}{'target':>8}"
    )
    rows: list[dict[str, object]] = []
    for name, timing in timings.items():
        target = TARGET if name == "eight formats" else None
        spread = f"{timing.low:.2f} .. {timing.high:.2f}"
        wanted = "" if target is None else f"{target:8.2f}"
        print(f"{name:26}{timing.ratio:8.2f}{spread:>16}{timing.best:8.2f}{timing.milliseconds:9.2f}{wanted}")
        rows.append({"elements": 2**exponent, "name": name, "target": target, **asdict(timing)})
    return rows


if __name__ == "__main__":
    main()
