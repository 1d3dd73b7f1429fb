"""The guard of a training run: it holds the run to its targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixprec.guard import Guard
from mixprec.records import TargetRow


def guard_of(guard: Guard, targets: Sequence[TargetRow]) -> Guard:
    """What the guard may do, with the target on the loss as the largest gap of a shadow."""
    rows = [row for row in targets if row["name"] == "quality.loss"]
    if not rows or guard.gap is not None or rows[0]["unit"] not in ("absolute", "relative"):
        return guard
    return replace(guard, gap=rows[0]["limit"], gap_is_relative=rows[0]["unit"] == "relative")
