"""What a training run is told, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mixprec.guard import Guard
from mixprec.monitor.export import Exporter
from mixprec.records import Forward, IncidentRecord, TargetRow, Verdict
from mixprec.specs import Recipe

from .._loading import WorkloadSource

Outcome = Literal["done", "failed", "interrupted", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A workload that is to be trained in one recipe under one seed.

    Attributes:
        source: gives the workload.
        recipe: to train in.
        seed: of the weights, the data, the stochastic roundings and what the model itself draws.
        device: where, e.g. ``"cpu"`` or ``"cuda:0"``.
        checkpoint_every: applied steps from one checkpoint to the next; ``None``: none by steps.
        checkpoint_minutes: wall time from one checkpoint to the next [min]; ``None``: none by time.
        evaluate_every: applied steps from one evaluation to the next; ``None``: after each quarter of the run. The end
            of the run is evaluated and saved in any case.
        keep: whole checkpoints that stay.
        targets: what the run is judged by at its end, beside the workload's own goals.
        exporters: hear every record of the run.
        guard: what a guard may do; ``None``: nobody looks.
        shadow_every: applied steps from one shadow to the next, the same batch in fp32 too; ``None``: none.
        shadow_backward: whether shadows compare gradients too, which takes two backward passes.

    Raises:
        ValueError: a number that is not above 0.
    """

    source: WorkloadSource
    recipe: Recipe
    seed: int = 0
    device: str = "cpu"
    checkpoint_every: int | None = None
    checkpoint_minutes: float | None = 10.0
    evaluate_every: int | None = None
    keep: int = 2
    targets: tuple[TargetRow, ...] = ()
    exporters: tuple[Exporter, ...] = ()
    guard: Guard | None = field(default_factory=Guard)
    shadow_every: int | None = None
    shadow_backward: bool = False

    def __post_init__(self) -> None:
        for name in ("checkpoint_every", "evaluate_every", "keep", "shadow_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: expected 1 or more steps" if name != "keep" else _KEEP)
        if self.shadow_backward and self.shadow_every is None:
            raise ValueError("shadow_backward says how shadows are run, and shadow_every is None: give both")
        minutes = self.checkpoint_minutes
        if minutes is not None and not (minutes > 0 and math.isfinite(minutes)):
            raise ValueError(f"checkpoint_minutes is {minutes}: expected minutes above 0, or none")


_KEEP = "keep: expected at least 1 checkpoint, for the run to go on from"


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Who hears of a training run beside its exporters.

    Attributes:
        says: is given one sentence at a time: where the run goes on, what was saved.
        signalled: is given the name of the first signal that stops the run, from inside of its handler.
    """

    says: Callable[[str], None] = lambda sentence: None
    signalled: Callable[[str], None] = lambda name: None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """How a training run ended.

    Attributes:
        outcome: ``"done"``, ``"failed"``, ``"interrupted"`` (by a signal) or ``"stopped"`` (by the guard).
        reason: why, where it did not end well; one sentence.
        signal: number of the signal that stopped it; 0 without one.
        applied: steps that changed the weights.
        skipped: steps that did not.
        steps: that were to be applied.
        metrics: of the last evaluation, by its forward pass.
        verdicts: on the targets; empty where the run is not done.
        checkpoint: the newest one; ``None`` where there is none.
        incidents: of the guard, as they stand, by number.
        was_done: whether the run had been done before, and nothing was trained.
    """

    outcome: Outcome
    reason: str = ""
    signal: int = 0
    applied: int
    skipped: int
    steps: int
    metrics: Mapping[Forward, Mapping[str, float]] = field(default_factory=dict[Forward, Mapping[str, float]])
    verdicts: tuple[Verdict, ...] = ()
    checkpoint: Path | None = None
    incidents: tuple[IncidentRecord, ...] = ()
    was_done: bool = False
