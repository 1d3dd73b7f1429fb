"""A training step of a GPT under each recipe, as a multiple of the fp32 step, beside its peers.

    python -m benchmarks.training_step [--quick] [--rounds N] [--threads N] [--out FILE]

A step is forward, backward and AdamW. Each recipe takes turns with fp32, and a ratio is taken within its round; only
these two models are alive then, for more of them crowd the caches and the system's tables of pages.
``bf16`` runs natively where the CPU has units for it; ``bf16 emulated`` never does. Saved activations are what
autograd keeps of one forward pass, parameters not counted.
"""

import argparse
import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from mixprec.compare.workloads.gpt import GPT, GPTConfig, next_character_loss
from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from ._machine import machine
from ._memory import saved_by_linears, saved_bytes
from ._timing import Timing, measure

CONFIG = GPTConfig(width=512, layers=4, heads=8, context=256, batch=8)
VOCABULARY = 96
TIME_TARGETS = {
    "bf16": 1.08,
    "bf16 emulated": 1.08,
    "fp8": 1.12,
    "fp8-delayed": 1.12,
    "mxfp8": 1.12,
    "fp8-block": 1.2,
    "mxfp4 complete": 1.3,
    "nvfp4": 1.2,
}
LINEARS_TARGETS = {"mxfp8": 0.30, "nvfp4": 0.20}
MEMORY_TARGETS = {"bf16": 0.58, "bf16 emulated": 0.58, "bf16 residual": 0.52}
Batch = tuple[Tensor, Tensor]


class Autocast(nn.Module):
    """Torch's own bf16 autocast around a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(ids).float()


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    base = GPT(vocabulary=VOCABULARY, config=CONFIG)
    ids = torch.randint(0, VOCABULARY, (CONFIG.batch, CONFIG.context), generator=torch.Generator().manual_seed(0))
    batch = (ids, ids.roll(-1, 1))
    fp32 = _step(base, batch)
    timings, saved = {}, {"fp32": saved_bytes(base, lambda m: next_character_loss(m, batch))}
    linears = {"fp32": saved_by_linears(base, ids.numel())}
    for name, make in _candidates(peers=not options.quick).items():
        model = make(copy.deepcopy(base))
        pair = measure({"fp32": fp32, name: _step(model, batch)}, "fp32", options.rounds)
        timings |= {"fp32": pair["fp32"], name: pair[name]}
        saved[name] = saved_bytes(model, lambda m: next_character_loss(m, batch))
        linears[name] = saved_by_linears(model, ids.numel())
    rows = _table(timings, saved, linears)
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"machine": machine(options.threads), "config": asdict(CONFIG), "rows": rows}, indent=1) + "\n"
    )
    print(f"wrote {path}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training steps as multiples of the fp32 step.")
    parser.add_argument("--quick", action="store_true", help="no peers")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", default="runs/benchmarks/training_step.json")
    return parser.parse_args()


def _candidates(peers: bool) -> dict[str, Callable[[nn.Module], nn.Module]]:
    recipes: dict[str, Recipe] = {
        "bf16": recipe("bf16"),
        "bf16 emulated": recipe("bf16", engine="emulated"),
        "bf16 residual": recipe("bf16", engine="emulated", residual="bf16"),
        **{name: recipe(name) for name in ("fp8", "fp8-delayed", "fp8-rowwise", "fp8-block", "mxfp8", "mxfp4")},
        "mxfp4 complete": _mxfp4_complete(),
        **{name: recipe(name) for name in ("mxfp4-backward", "nvfp4", "int8")},
    }
    found = {name: _converter(chosen) for name, chosen in recipes.items()}
    return found | ({"torch autocast bf16": Autocast, "torchao float8 emulated": _torchao} if peers else {})


def _mxfp4_complete() -> Recipe:
    """MXFP4 in all three products, the backward ones transformed and stochastic."""
    precision = LayerPrecision.by_pass(forward="mxfp4", backward="mxfp4 x3/4 sr rht32")
    rules = (Rule(head=True, required=False), Rule(precision=precision))
    return Recipe(name="mxfp4 complete", rules=rules)


def _converter(chosen: Recipe) -> Callable[[nn.Module], nn.Module]:
    def make(model: nn.Module) -> nn.Module:
        convert(model, chosen)
        return model

    return make


def _torchao(model: nn.Module) -> nn.Module:
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    return convert_to_float8_training(
        model, config=Float8LinearConfig(emulate=True), module_filter_fn=lambda _, name: name != "head"
    )


def _step(model: nn.Module, batch: Batch) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        next_character_loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _table(timings: dict[str, Timing], saved: dict[str, int], linears: dict[str, int]) -> list[dict[str, object]]:
    c = CONFIG
    print(
        f"GPT of {c.layers} layers, width {c.width}, {c.heads} heads, vocabulary {VOCABULARY}; "
        f"batch {c.batch} x {c.context} = {c.batch * c.context} tokens; fp32 step {timings['fp32'].milliseconds:.0f} ms"
    )
    print(f"{'':26}{'time':>7}{'quartiles':>16}{'target':>8}{'saved':>8}{'target':>8}{'linears':>9}{'target':>8}")
    rows: list[dict[str, object]] = []
    for name, timing in timings.items():
        share, of_linears = saved[name] / saved["fp32"], linears[name] / linears["fp32"]
        spread = f"{timing.low:.2f} .. {timing.high:.2f}"
        targets = (TIME_TARGETS.get(name), MEMORY_TARGETS.get(name), LINEARS_TARGETS.get(name))
        wanted = [f"{t:8.2f}" if t is not None else " " * 8 for t in targets]
        print(f"{name:26}{timing.ratio:7.3f}{spread:>16}{wanted[0]}{share:8.3f}{wanted[1]}{of_linears:9.3f}{wanted[2]}")
        rows.append(
            {
                "name": name,
                "saved": share,
                "saved_by_linears": of_linears,
                "time_target": targets[0],
                "saved_target": targets[1],
                "linears_target": targets[2],
                **asdict(timing),
            }
        )
    return rows


if __name__ == "__main__":
    main()
