"""The compiled kernels' times as multiples of a copy of the same fp32 tensor, beside their peers'.

    python -m benchmarks.kernels [--quick] [--level LEVEL] [--threads N] [--processor-time] [--out FILE]

``--processor-time`` runs one thread and counts its processor time, which other work on the machine disturbs less.
Prints one table and writes it as JSON. ``out given``: into a tensor that exists, as ``y.copy_(x)`` does;
``fresh``: a new result each call, whose pages the system may have to map and clear (as ``x.clone()``'s).
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from mixprec.kernels import FIXED_SIGNS, CastParameters, Draw, cast_parameters
from mixprec.kernels.cpu import CpuBackend, level_names
from mixprec.specs import parse_cast

from ._machine import machine
from ._peers import peers
from ._timing import Timing, measure

# Largest multiple of a copy at (2^22, 2^25) elements, out given.
TARGETS = {
    "amax": (0.7, 0.7),
    "e4m3": (1.15, 1.15),
    "mxfp8": (1.4, 1.4),
    "mxfp4": (1.4, 1.4),
    "nvfp4": (1.8, 1.8),
    "nvfp4-2d": (1.8, 1.8),
    "bf16 sr": (2.2, 1.7),
    "e4m3 sr": (2.2, 1.7),
    "mxfp8 both": (3.0, 3.0),
}
CASTS = (
    "bf16",
    "fp16",
    "e4m3",
    "e4m3[tensor]",
    "e4m3[row]",
    "e4m3[1x128:e8m0] rceil",
    "e4m3[128x128:e8m0] rceil",
    "mxfp8",
    "mxfp4",
    "nvfp4",
    "nvfp4-2d",
    "nvfp4 4/6",
    "nvfp4 rht16",
    "nf4[1x64:fp32]",
    "bf16 sr",
    "e4m3 sr",
    "mxfp4 sr",
    "nvfp4 sr",
    "nvfp4 sr rht16",
    "mxfp4 x3/4 sr rht64-fresh",
)
ALONG_ROWS = ("mxfp8", "nvfp4", "nvfp4 rht16", "mxfp4 sr", "nvfp4 sr rht16", "mxfp4 x3/4 sr rht64-fresh")
# What a layer's operands are cast to, along rows and along columns: two carriers, or a carrier and codes.
PAIRS = {"mxfp8": ("mxfp8 rceil", "mxfp8 rceil"), "nvfp4": ("nvfp4", "nvfp4 rht16")}
GRADIENT = ("nvfp4 sr", "nvfp4 sr rht16")
STORED = {"mxfp8": "mxfp8 rceil", "nvfp4": "nvfp4 rht16"}
COLUMNS = 2048
DRAW = Draw(1, 2, 2**62)
Clock = Callable[[], float]


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.processor_time else time.perf_counter
    rows: list[dict[str, object]] = []
    for exponent in (22,) if options.quick else (22, 25):
        rounds = (9 if options.quick else 41) if exponent == 22 else 15
        rows += _ours(exponent, CpuBackend(options.level), rounds, clock)
        if exponent == 22 and not options.quick:
            rows += _peers(exponent, clock)
    result = {"machine": _facts(options), "import_ratio": _import_ratio(3 if options.quick else 7), "rows": rows}
    print(f"import mixprec: {result['import_ratio']:.3f} times import torch")
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times of the compiled kernels as multiples of a copy.")
    parser.add_argument("--quick", action="store_true", help="2^22 elements, few rounds, no peers")
    parser.add_argument("--level", choices=level_names(), default=None, help="instruction set; default: the best")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true", help="one thread, its processor time")
    parser.add_argument("--out", default="runs/benchmarks/kernels.json")
    options = parser.parse_args()
    if options.processor_time:
        options.threads = 1
    return options


def _ours(exponent: int, backend: CpuBackend, rounds: int, clock: Clock) -> list[dict[str, object]]:
    x = torch.randn(2**exponent // COLUMNS, COLUMNS, generator=torch.Generator().manual_seed(0))
    y, z = torch.empty_like(x), torch.empty_like(x)
    given: dict[str, Callable[[], object]] = {"copy": lambda: y.copy_(x), "amax": lambda: backend.amax(x)}
    fresh: dict[str, Callable[[], object]] = {"copy": lambda: y.copy_(x), "clone": lambda: x.clone()}
    for name in CASTS:
        parameters = _parameters(name)
        given[name] = lambda p=parameters: backend.scaled(x, p, 1, DRAW, out=y)
        fresh[name] = lambda p=parameters: backend.scaled(x, p, 1, DRAW)
    for name in ALONG_ROWS:
        parameters = _parameters(name)
        given[f"{name} axis 0"] = lambda p=parameters: backend.scaled(x, p, 0, DRAW, out=y)
    delayed, amax = _parameters("e4m3[tensor] delayed"), x.abs().amax()
    given["e4m3[tensor] delayed"] = lambda: backend.delayed(x, delayed, DRAW, amax, out=y)
    given |= _pairs(x, backend, y, z) | _stored(x, backend, y)
    mxfp8 = _parameters("mxfp8")
    fresh["mxfp8 both"] = lambda: backend.scaled_both(x, mxfp8, mxfp8, (DRAW, DRAW))
    fresh |= _whole_calls(x, backend)
    rows = _table(f"2^{exponent} elements, out given", measure(given, "copy", rounds, clock), exponent)
    return rows + _table(f"2^{exponent} elements, fresh", measure(fresh, "copy", max(rounds // 3, 3), clock), exponent)


def _parameters(cast: str) -> CastParameters:
    return cast_parameters(parse_cast(cast))


def _pairs(x: Tensor, backend: CpuBackend, y: Tensor, z: Tensor) -> dict[str, Callable[[], object]]:
    """Two casts of one reading."""
    calls: dict[str, Callable[[], object]] = {}
    for name, (row, column) in {**PAIRS, "nvfp4 gradient": GRADIENT}.items():
        casts = (_parameters(row), _parameters(column), (DRAW, DRAW))
        calls[f"{name} both"] = lambda c=casts: backend.scaled_both(x, *c, out=(y, z))
        if name in PAIRS:
            calls[f"{name} carrier and codes"] = lambda c=casts: backend.scaled_quantized(x, *c, out=y)
    return calls


def _stored(x: Tensor, backend: CpuBackend, y: Tensor) -> dict[str, Callable[[], object]]:
    """Codes as they are kept for the backward pass, and the carrier made of them."""
    calls: dict[str, Callable[[], object]] = {}
    for name, cast in STORED.items():
        parameters = _parameters(cast)
        for axis in (1, 0):
            codes, scales, _ = backend.quantize(x, parameters, axis, DRAW)
            calls[f"{name} to codes axis {axis}"] = lambda p=parameters, a=axis: backend.quantize(x, p, a, DRAW)
            stored = (codes, scales, None, parameters, x.shape, axis)
            calls[f"{name} to carrier axis {axis}"] = lambda s=stored: backend.dequantize(*s, out=y)
    return calls


def _whole_calls(x: Tensor, backend: CpuBackend) -> dict[str, Callable[[], object]]:
    """Calls that allocate what they give."""
    calls: dict[str, Callable[[], object]] = {
        "hadamard 32 axis 1": lambda: backend.hadamard(x, 32, FIXED_SIGNS, 1, False),
        "hadamard 32 axis 0": lambda: backend.hadamard(x, 32, FIXED_SIGNS, 0, False),
    }
    for name in ("mxfp8", "nvfp4"):
        parameters = _parameters(name)
        stored = backend.quantize(x, parameters, 1, DRAW)
        calls[f"{name} dequantize"] = lambda p=parameters, s=stored: backend.dequantize(*s, p, x.shape, 1)
    return calls


def _peers(exponent: int, clock: Clock) -> list[dict[str, object]]:
    x = torch.randn(2**exponent // COLUMNS, COLUMNS, generator=torch.Generator().manual_seed(0))
    y = torch.empty_like(x)
    calls: dict[str, Callable[[], object]] = {"copy": lambda: y.copy_(x)} | peers(x)
    return _table(f"2^{exponent} elements, other libraries, fresh", measure(calls, "copy", 3, clock), exponent)


def _table(title: str, timings: dict[str, Timing], exponent: int) -> list[dict[str, object]]:
    print(f"\n{title}\n{'':30}{'ratio':>8}{'quartiles':>16}{'best':>8}{'ms':>9}{'target':>8}")
    rows: list[dict[str, object]] = []
    for name, timing in timings.items():
        targets = TARGETS.get(name) if title.endswith("out given") else None
        target = targets[exponent > 22] if targets else None
        spread = f"{timing.low:.2f} .. {timing.high:.2f}"
        wanted = "" if target is None else f"{target:8.2f}"
        print(f"{name:30}{timing.ratio:8.2f}{spread:>16}{timing.best:8.2f}{timing.milliseconds:9.2f}{wanted}")
        rows.append({"table": title, "name": name, "target": target, **asdict(timing)})
    return rows


def _facts(options: argparse.Namespace) -> dict[str, object]:
    clock = "processor time" if options.processor_time else "wall"
    return {**machine(options.threads), "clock": clock, "level": options.level or level_names()[-1]}


def _import_ratio(rounds: int) -> float:
    """Time of a fresh process that imports mixprec over one that imports torch: median of paired ratios."""
    ratios: list[float] = []
    for _ in range(rounds):
        times = [_seconds([sys.executable, "-c", f"import {name}"]) for name in ("torch", "mixprec")]
        ratios.append(times[1] / times[0])
    return statistics.median(ratios)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
