"""What lies between the backward pass and the next forward, as multiples of a copy of the fp32 weights.

    python -m benchmarks.optimizer_step [--quick] [--threads N] [--level LEVEL] [--processor-time] [--out FILE]

One tensor of 16 million parameters. Ours: the squares of the gradients, then the step. torch: ``unscale_``,
``clip_grad_norm_``, fused AdamW and ``update``. Gradients are fp32 for fp32 weights and bf16 for 16-bit ones, as
autograd gives them. All candidates take turns, beside a copy in each round.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from mixprec.kernels import AdamWRule, Draw, Slot, StoredMoment, StoredWeight
from mixprec.kernels.cpu import CpuBackend, level_names

from ._machine import machine
from ._optimizer_peers import peers
from ._timing import measure

COUNT = 16 * 2**20
BF16 = torch.bfloat16
RULE = AdamWRule(
    factor=0.5,
    decay=1.0 - 1e-5,
    beta1=0.9,
    alpha1=0.1,
    beta2=0.999,
    alpha2=0.001,
    rate=1e-3,
    correction=1.0,
    eps=1e-8,
)
# How weight and moments are kept, and at most how many copies that may cost.
KEPT: dict[str, tuple[str, torch.dtype, str, float | None]] = {
    "fp32": ("plain", torch.float32, "fp32", 3.0),
    "master": ("master", BF16, "fp32", 3.4),
    "split": ("split", BF16, "fp32", 3.2),
    "stochastic": ("stochastic", BF16, "fp32", 2.9),
    "kahan": ("kahan", BF16, "fp32", None),
    "fp32, bf16 moments": ("plain", torch.float32, "bf16", None),
    "fp32, e4m3 moments": ("plain", torch.float32, "e4m3", 3.0),
    "fp32, dynamic moments": ("plain", torch.float32, "dynamic", 3.0),
    "stochastic, bf16 moments": ("stochastic", BF16, "bf16", None),
    "stochastic, e4m3 moments": ("stochastic", BF16, "e4m3", None),
    "stochastic, dynamic moments": ("stochastic", BF16, "dynamic", None),
}
EXTRAS = {"master": torch.float32, "split": torch.int16, "kahan": BF16}
Call = Callable[[], object]


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    weights = torch.randn(COUNT, generator=torch.Generator().manual_seed(0)) * 0.02
    gradient = torch.randn(COUNT, generator=torch.Generator().manual_seed(1)) * 1e-3
    backend, copy = CpuBackend(options.level), torch.empty_like(weights)
    calls: dict[str, Call] = {"copy": lambda: copy.copy_(weights)}
    for dtype in (torch.float32, BF16):
        given = gradient.to(dtype)
        calls[f"squares of {str(dtype)[6:]}"] = lambda g=given: backend.gradient_squares([g])
    for name, kept in KEPT.items():
        calls[name] = _step(backend, weights, gradient, kept)
    rows = _timed(calls, 3 if options.quick else 15, clock)
    if not options.quick:
        rows += _timed({"copy": calls["copy"], **peers(weights, gradient)}, 5, clock)
    facts = {**machine(options.threads), "level": options.level or level_names()[-1], "parameters": COUNT}
    facts["clock"] = "processor time" if options.processor_time else "wall"
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    print(f"wrote {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times of an optimizer's step as multiples of a copy.")
    parser.add_argument("--quick", action="store_true", help="few rounds, no other libraries")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--level", choices=level_names(), default=None, help="instruction set; default: the best")
    parser.add_argument("--processor-time", action="store_true", help="one thread, its processor time")
    parser.add_argument("--out", default="runs/benchmarks/optimizer_step.json")
    options = parser.parse_args()
    if options.processor_time:
        options.threads = 1
    return options


def _step(
    backend: CpuBackend, weights: Tensor, gradient: Tensor, kept: tuple[str, torch.dtype, str, float | None]
) -> Call:
    """The squares of a gradient and the step of one way to keep its parameter."""
    kind, dtype, moments, _ = kept
    extra = torch.zeros(COUNT, dtype=EXTRAS[kind]) if kind in EXTRAS else None
    weight = StoredWeight(kind, torch.zeros(COUNT, dtype=dtype), extra)  # pyright: ignore[reportArgumentType]
    backend.store_weight(weight, weights, Draw())
    first, second = _moment(moments, is_signed=True), _moment(moments, is_signed=False)
    backend.store_moment(first, gradient * 0.3)
    backend.store_moment(second, gradient * gradient)
    slot = Slot(gradient.to(dtype), weight, (first, second), Draw(1, 2))

    def call() -> None:
        backend.gradient_squares([slot.gradient])
        backend.optimizer_step([slot], RULE)

    return call


def _moment(kind: str, is_signed: bool) -> StoredMoment:
    if kind in ("fp32", "bf16"):
        values = torch.zeros(COUNT, dtype=torch.float32 if kind == "fp32" else BF16)
        return StoredMoment(kind, values)  # pyright: ignore[reportArgumentType]
    blocks = -(-COUNT // 256)
    return StoredMoment(
        kind,  # pyright: ignore[reportArgumentType]
        torch.zeros(COUNT, dtype=torch.uint8),
        torch.zeros(blocks),
        torch.zeros(blocks, dtype=torch.uint8) if kind == "e4m3" else None,
        is_signed=is_signed,
    )


def _timed(calls: dict[str, Call], rounds: int, clock: Callable[[], float]) -> list[dict[str, object]]:
    """Measure, print and give a table's rows."""
    print(f"\n{'multiples of a copy':48}{'ratio':>8}{'quartiles':>18}{'best':>8}{'ms':>9}{'target':>8}")
    rows: list[dict[str, object]] = []
    for name, timing in measure(calls, "copy", rounds, clock).items():
        target = KEPT[name][3] if name in KEPT else None
        spread = f"{timing.low:.2f} .. {timing.high:.2f}"
        wanted = "" if target is None else f"{target:8.2f}"
        print(f"{name:48}{timing.ratio:8.2f}{spread:>18}{timing.best:8.2f}{timing.milliseconds:9.2f}{wanted}")
        rows.append({"name": name, "target": target, **asdict(timing)})
    return rows


if __name__ == "__main__":
    main()
