"""Whether a recipe keeps a target, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ._types import TargetUnit

TargetOutcome = Literal["met", "missed", "not resolved"]

#: Exit statuses: all targets met, or none given; one missed; none missed and one not resolved.
MET, MISSED, NOT_RESOLVED = 0, 1, 3


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One recipe against one target.

    A target is met where the whole interval keeps it, missed where none of it does.

    Attributes:
        recipe: its name.
        target: as the targets file names it, e.g. ``"quality.loss"``.
        outcome: ``"met"``, ``"missed"`` or ``"not resolved"``.
        limit: the most that is allowed, in the units of ``measured``.
        unit: what the target counts in.
        measured: the gap in the direction that is worse, or what a step takes; ``None`` where nothing was measured.
        interval: of that; ``None`` where it has none (memory is the same at every seed).
        pairs: seeds behind it.
        reason: why it is not resolved, was missed without an interval, or is met though runs failed; else empty.

    Example:
        >>> Verdict(
        ...     recipe="bf16", target="quality.loss", outcome="met", limit=0.01, unit="absolute",
        ...     measured=0.002, interval=(-0.001, 0.005), pairs=5,
        ... ).outcome
        'met'
    """

    recipe: str
    target: str
    outcome: TargetOutcome
    limit: float
    unit: TargetUnit
    measured: float | None
    interval: tuple[float, float] | None
    pairs: int
    reason: str = ""


def outcome_of(interval: tuple[float, float] | None, limit: float) -> TargetOutcome:
    """Whether a whole interval keeps a limit, or none of it.

    Example:
        >>> [outcome_of((0.009, 0.013), limit) for limit in (0.02, 0.01, 0.001)]
        ['met', 'not resolved', 'missed']
        >>> outcome_of(None, 0.1)
        'not resolved'
    """
    if interval is None:
        return "not resolved"
    low, high = interval
    return "met" if high <= limit else "missed" if low > limit else "not resolved"


def exit_status(outcomes: Iterable[TargetOutcome]) -> int:
    """The exit status of a command that judged targets: 0, 1 where one was missed, 3 where one is not resolved.

    Example:
        >>> exit_status([]), exit_status(["met", "not resolved"]), exit_status(["missed", "not resolved"])
        (0, 3, 1)
    """
    found = set(outcomes)
    return MISSED if "missed" in found else NOT_RESOLVED if "not resolved" in found else MET
