"""What a drill is told, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mixprec.guard import Guard
from mixprec.records import Forward, IncidentRecord, Rung
from mixprec.specs import Recipe

from .._loading import WorkloadSource

#: Fewest seeds that seed noise is told from, and fewest steps of a run.
LEAST_SEEDS, LEAST_STEPS = 3, 100


@dataclass(frozen=True, kw_only=True)
class Drill:
    """A rehearsal of recovery.

    Attributes:
        source: gives the workload, with as many steps as each run is to take.
        recipe: to train in.
        seeds: each run without a fault, and with each fault, with and without guard.
        faults: their words, of ``FAULTS``; none: all that can be planted.
        guard: that is rehearsed.
        device: where, e.g. ``"cpu"`` or ``"cuda:0"``.
        says: is given one sentence for each run that has ended.

    Raises:
        ValueError: fewer than 3 seeds, or one of seeds and faults twice.
    """

    source: WorkloadSource
    recipe: Recipe
    seeds: tuple[int, ...] = (0, 1, 2)
    faults: tuple[str, ...] = ()
    guard: Guard = field(default_factory=Guard)
    device: str = "cpu"
    says: Callable[[str], None] = lambda sentence: None

    def __post_init__(self) -> None:
        if len(set(self.seeds)) < max(len(self.seeds), LEAST_SEEDS):
            raise ValueError(
                f"a drill got seeds {', '.join(map(str, self.seeds))}: expected at least {LEAST_SEEDS} different ones, "
                "for seed noise is told from the runs without a fault"
            )
        twice = sorted({name for name in self.faults if self.faults.count(name) > 1})
        if twice:
            raise ValueError(f"fault {twice[0]} is asked for more than once: name each once")


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """One run of a drill.

    Attributes:
        losses: evaluated at the end, by forward pass; empty where the run did not come to its end.
        ended: why it did not; empty where it did.
        calls: of ``step``.
        applied: steps that stand at the end.
        seconds: wall time of its steps [s].
        planted: call of ``step``, counted from 0, at which the fault began; ``None``: it did not.
        incidents: what the guard saw and did.
        seen: for each incident, the call of ``step`` in which it was told.
        folder: of its records, in the drill's folder.
    """

    losses: Mapping[Forward, float] = field(default_factory=dict[Forward, float])
    ended: str = ""
    calls: int
    applied: int
    seconds: float
    planted: int | None = None
    incidents: tuple[IncidentRecord, ...] = ()
    seen: tuple[int, ...] = ()
    folder: str = ""

    @property
    def loss(self) -> float:
        """The worse of the two evaluations; NaN where the run did not come to its end, or one is NaN."""
        values = list(self.losses.values())
        return max(values) if values and not any(map(math.isnan, values)) else math.nan


@dataclass(frozen=True, kw_only=True)
class FaultRun:
    """What became of one fault under one seed.

    Attributes:
        fault: its word.
        seed: of the run.
        planted: call of ``step`` at which it began.
        within: steps within which it was to be seen; ``None``: no limit.
        detected: steps from its beginning until it was seen; ``None``: it was not.
        trigger: what was seen first.
        site: that was named then; empty where none was.
        rungs: what was done, in this order.
        false_alarms: incidents before it began.
        loss: at the end, with the fault and the guard; NaN where the run did not come to its end.
        loss_without_fault: of the run with the guard and without the fault, from the same seed.
        loss_without_guard: of the run with the fault and without the guard; NaN likewise.
        recovered: whether ``loss`` is within seed noise of ``loss_without_fault``.
        harmless: whether ``loss_without_guard`` is.
        worse: whether the guard has made it worse: ``loss`` above ``loss_without_guard`` by more than seed noise.
        lost_steps: calls of ``step`` beyond those that a run without a fault takes.
        lost_seconds: what the incidents have cost, as their records tell [s].
        ended: why the run with the guard did not come to its end; empty where it did.
        folder: of its records, in the drill's folder.
    """

    fault: str
    seed: int
    planted: int
    within: int | None
    detected: int | None
    trigger: str
    site: str
    rungs: tuple[Rung, ...]
    false_alarms: int
    loss: float
    loss_without_fault: float
    loss_without_guard: float
    recovered: bool
    harmless: bool
    worse: bool
    lost_steps: int
    lost_seconds: float
    ended: str
    folder: str

    @property
    def in_time(self) -> bool:
        """Whether it was seen within its limit; without a limit, seen at all, or harmless."""
        if self.detected is None:
            return self.within is None and self.harmless
        return self.within is None or self.detected <= self.within

    @property
    def passed(self) -> bool:
        """Whether it was seen in time and nothing was lost by it."""
        return self.in_time and self.recovered and not self.worse and not self.false_alarms


@dataclass(frozen=True, kw_only=True)
class HealthyRun:
    """A run without a fault, under guard.

    Attributes:
        seed: of the run.
        loss: at its end.
        triggers: of the incidents that the guard has told, all of them false alarms.
        seconds: wall time of its steps [s].
        folder: of its records, in the drill's folder.
    """

    seed: int
    loss: float
    triggers: tuple[str, ...]
    seconds: float
    folder: str


@dataclass(frozen=True, kw_only=True)
class Drilled:
    """What a drill has found.

    Attributes:
        workload: its name.
        recipe: its name.
        steps: of each run.
        noise: what a final loss may lie above another of the same seed and still be within seed noise.
        healthy: runs without a fault, one a seed.
        runs: by fault, then by seed.
        sites: for faults of one site: that site.
        left_out: faults that cannot be planted into this workload, and why.
    """

    workload: str
    recipe: str
    steps: int
    noise: float
    healthy: tuple[HealthyRun, ...]
    runs: tuple[FaultRun, ...]
    sites: Mapping[str, str]
    left_out: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether no alarm was false, every fault was seen in time, and nothing was lost by any."""
        return not any(run.triggers for run in self.healthy) and all(run.passed for run in self.runs)
