"""Training steps of a GPT on a device under recipes, as multiples of the fp32 step: time, memory, engine."""

import copy
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor, nn

from mixprec.compare.workloads.gpt import GPT, GPTConfig, next_character_loss
from mixprec.nn import convert
from mixprec.specs import Recipe, recipe

from ._device_clock import finish, measure_on
from ._memory import saved_bytes

CONFIG = GPTConfig(width=1024, layers=8, heads=16, context=512, batch=8)
SMALL = GPTConfig(width=64, layers=1, heads=2, context=32, batch=2)
VOCABULARY = 96
NAMES = ("bf16", "fp8", "mxfp8", "nvfp4")
Batch = tuple[Tensor, Tensor]
Row = dict[str, object]


def time_steps(device: torch.device, quick: bool, end: float) -> list[Row]:
    """One row for each recipe, by the engine that it gets by itself and emulated; none is begun after ``end``."""
    config, rounds = (SMALL, 2) if quick else (CONFIG, 7)
    torch.manual_seed(0)
    base = GPT(vocabulary=VOCABULARY, config=config).to(device)
    ids = torch.randint(0, VOCABULARY, (config.batch, config.context), device=device)
    batch = (ids, ids.roll(-1, 1))
    fp32 = Trained(copy.deepcopy(base), None, batch, device)
    rows = [_row("fp32", {"ratio": 1.0}, fp32, fp32)]
    for name, made in _recipes():
        if time.monotonic() > end:
            print(f"{name:32}  left out: no time")
            continue
        other = Trained(copy.deepcopy(base), made, batch, device)
        if made.engine == "emulated" and other.native_share == rows[-1]["native"] and rows[-1]["name"] == made.name:
            continue  # it was emulated by itself
        timings = measure_on(device, {"fp32": fp32.step, name: other.step}, "fp32", rounds, repeats=1)
        rows.append(_row(name, asdict(timings[name]), other, fp32))
    return rows


def _recipes() -> list[tuple[str, Recipe]]:
    both = [(name, recipe(name)) for name in NAMES], [(f"{n} emulated", recipe(n, engine="emulated")) for n in NAMES]
    return [pair for pairs in zip(*both, strict=True) for pair in pairs]


class Trained:
    """A model under a recipe, with its step."""

    def __init__(self, model: nn.Module, made: Recipe | None, batch: Batch, device: torch.device) -> None:
        self._model, self._batch, self._device = model, batch, device
        conversion = convert(model, made) if made is not None else None
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.saved = saved_bytes(model, lambda m: next_character_loss(m, batch))
        self.peak = self._peak_of(self.step)
        self.native_share = 1.0
        if conversion is not None:
            with conversion.measured():
                self.step()
            self.native_share = conversion.audit().engines.get("native", 0.0)

    def step(self) -> None:
        """Forward, backward, AdamW."""
        next_character_loss(self._model, self._batch).backward()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _peak_of(self, call: Callable[[], object]) -> int | None:
        """Bytes that a step holds at most, other models left out; None where the device does not tell."""
        call()
        if self._device.type != "cuda":
            return None
        finish(self._device)
        before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        call()
        finish(self._device)
        return torch.cuda.max_memory_allocated(self._device) - before


def _row(name: str, timing: Row, other: Trained, fp32: Trained) -> Row:
    saved = other.saved / fp32.saved
    peak = other.peak / fp32.peak if other.peak and fp32.peak else None
    told = f"{peak:8.2f}" if peak is not None else f"{'-':>8}"
    print(f"{name:32}{timing['ratio']:8.2f}   saved {saved:.2f}   peak{told}   native {100 * other.native_share:.0f} %")
    return {"name": name, "saved": saved, "peak": peak, "native": other.native_share, **timing}
