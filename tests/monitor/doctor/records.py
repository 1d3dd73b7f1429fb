"""Records of runs that went one way or another, made without training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from mixprec.records import (
    CoverageRecord,
    EventRecord,
    Record,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    write_records,
)
from mixprec.specs import Recipe


def step(number: int, loss: float = 2.0, **changes: object) -> StepRecord:
    values = {"applied": True, "grad_norm": 1.0, "loss_scale": None, "recipe": "mine", "seed": 0, **changes}
    return StepRecord(step=number, loss=loss, seconds=0.1, tokens=None, **values)


def skipped(number: int, loss: float = 2.0, **changes: object) -> StepRecord:
    return step(number, loss, **{"applied": False, "grad_norm": math.inf, **changes})


def calm(steps: int, first: int = 0, **changes: object) -> list[StepRecord]:
    """A healthy stretch: the loss falls, with some noise."""
    return [step(n, 2.0 - 0.001 * n + 0.01 * (n % 3), **changes) for n in range(first, first + steps)]


def statistics(number: int = 0, **changes: object) -> StatisticsRecord:
    values = {
        "recipe": "mine",
        "seed": 0,
        "site": "blocks.0.fc",
        "role": "grad_output",
        "cast": "e4m3[tensor]",
        "in_use": True,
        "elements": 4096,
        "zeros": 0.0,
        "nonfinite": 0,
        "amax": 3.0,
        "flushed": 0.0,
        "subnormal": 0.0,
        "saturated": 0.0,
        "sqnr_db": 30.0,
        "relative_error": 0.02,
        "bias": 0.0,
        "exponents": {},
        **changes,
    }
    return StatisticsRecord(step=number, **values)


def update(number: int = 0, **changes: object) -> UpdateRecord:
    values = {
        "recipe": "mine",
        "seed": 0,
        "site": "norm.weight",
        "dtype": "bf16",
        "weight_norm": 2.0,
        "gradient_norm": 0.1,
        "update_norm": 0.002,
        "ratio": 0.001,
        "lost": 0.0,
        **changes,
    }
    return UpdateRecord(step=number, **values)


def event(number: int, name: str, message: str = "m", site: str = "") -> EventRecord:
    return EventRecord(recipe="mine", seed=0, step=number, name=name, site=site, message=message)


def coverage(*, engine: str = "native", uncovered: Sequence[str] = ()) -> CoverageRecord:
    row = {"site": "fc", "gemm": "fprop", "format": "mxfp8", "engine": engine, "flops": 100}
    return CoverageRecord(recipe="mine", seed=0, rows=(row,), uncovered=tuple(uncovered))


def folder(path: Path, records: Iterable[Record], recipe: Recipe | None = None) -> Path:
    """A run folder with these records."""
    path.mkdir(parents=True, exist_ok=True)
    write_records(path / "records.jsonl", records)
    if recipe is not None:
        (path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return path
