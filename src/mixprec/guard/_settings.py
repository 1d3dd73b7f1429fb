"""What a guard may do, and from where on: one frozen value for each rung of its ladder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..monitor.alarms import Thresholds


def _at_least(owner: object, least: float, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        whole = isinstance(least, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value >= least:
            expected = f"a whole number from {least} on" if whole else f"a number from {least:g} on"
            raise ValueError(f"{type(owner).__name__}: {name} is {value!r}: expected {expected}")
        if not math.isfinite(value):
            raise ValueError(f"{type(owner).__name__}: {name} is {value!r}: expected a finite number")


@dataclass(frozen=True, kw_only=True)
class Clip:
    """Clip the gradient norm by its z-score.

    A norm more than ``z`` deviations above its mean is clipped to ``mean + z^2 / z(norm) * deviation``, and enters mean
    and deviation (exponential averages) as it was clipped. Healthy runs have such norms now and then: at the published
    2.5 some steps of a run without any fault are clipped, so that it is off unless it is asked for, and is told by an
    event, not by an incident.

    Attributes:
        z: deviations that are ordinary.
        decay: of the averages.
        warm_up: applied steps that are only averaged.

    Source: Kumar et al., ZClip, arXiv:2504.02507.
    """

    z: float = 2.5
    decay: float = 0.97
    warm_up: int = 25

    def __post_init__(self) -> None:
        _at_least(self, 0.5, "z")
        _at_least(self, 2, "warm_up")
        _at_least(self, 0.0, "decay")
        if not 0.0 < self.decay < 1.0:
            raise ValueError(f"Clip: decay is {self.decay!r}: expected a number between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Change a static loss scale that does not fit: down where gradients overflow, up where all of them vanish.

    A dynamic one finds its level by itself.

    Attributes:
        factor: that it shrinks by, a power of two below 1; it grows by the inverse.
        limit: changes within ``window`` applied steps; then the next rung is taken.
        window: applied steps.
    """

    factor: float = 0.5
    limit: int = 4
    window: int = 1000

    def __post_init__(self) -> None:
        _at_least(self, 1, "limit", "window")
        _at_least(self, 0.0, "factor")
        if not (0.0 < self.factor < 1.0 and math.frexp(self.factor)[0] == 0.5):
            raise ValueError(f"Scale: factor is {self.factor!r}: expected a power of two below 1, such as 0.5")


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Leave a step out before it changes a weight.

    Attributes:
        limit: steps in a row; then it is not the batches.
    """

    limit: int = 16

    def __post_init__(self) -> None:
        _at_least(self, 1, "limit")


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """Go back to the last good snapshot, and leave out the batches that led to the fault.

    Attributes:
        limit: times within ``window`` applied steps.
        window: applied steps.
        batches: of those before the fault was seen, how many at most are left out.
    """

    limit: int = 3
    window: int = 1000
    batches: int = 16

    def __post_init__(self) -> None:
        _at_least(self, 1, "limit", "window")
        _at_least(self, 0, "batches")


@dataclass(frozen=True, kw_only=True)
class Escalate:
    """Go back, and give the guilty sites wider casts.

    Attributes:
        limit: times in a run.
        most_sites: sites that one time widens where some are known to be guilty; all narrow ones where none is.
    """

    limit: int = 4
    most_sites: int = 4

    def __post_init__(self) -> None:
        _at_least(self, 1, "limit", "most_sites")


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """States of the run that it can go back to.

    Attributes:
        every: applied steps from one to the next.
        in_memory: how many are held at once; each takes as many bytes as weights, moments and what is kept beside them.
        quiet: applied steps without a trigger after which a snapshot is good, and an incident over.
        disk_every: applied steps from one to the next on disk, in ``snapshots`` of a session's run folder.
        on_disk: how many are held there at once, with one more for a process that resumes; 0: none.
    """

    every: int = 20
    in_memory: int = 3
    quiet: int = 10
    disk_every: int = 200
    on_disk: int = 3

    def __post_init__(self) -> None:
        _at_least(self, 1, "every", "quiet", "disk_every")
        _at_least(self, 2, "in_memory")
        _at_least(self, 0, "on_disk")
        if self.on_disk == 1:
            raise ValueError(
                "Snapshots: on_disk is 1: expected 0 or from 2 on, for a new one is not good before its quiet steps"
            )
        longest = self.every * (self.in_memory - 1)
        if self.quiet > longest:
            raise ValueError(
                f"Snapshots: one is good after {self.quiet} quiet steps, and with {self.in_memory} in memory, "
                f"{self.every} steps apart, it is gone after {longest}: expected quiet of at most {longest}, or more "
                "in memory"
            )
        longest = self.disk_every * (self.on_disk - 1)
        if self.on_disk and self.quiet > longest:
            raise ValueError(
                f"Snapshots: one is good after {self.quiet} quiet steps, and with {self.on_disk} on disk, "
                f"{self.disk_every} steps apart, it is gone after {longest}: expected disk_every of at least "
                f"{-(-self.quiet // (self.on_disk - 1))}, or on_disk=0"
            )


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What a guard may do. A rung that is ``None`` is off: what it would have met is met by the next one.

    Attributes:
        clip: by z-score; off unless it is asked for.
        scale: of a static loss scale.
        skip: before the update.
        rewind: to the last good snapshot.
        escalate: to wider casts.
        stops: whether the run ends where no rung is left; else that is only told.
        snapshots: that the run goes back to.
        thresholds: from where on a loss or a norm is no ordinary one.
        drift: share of the baseline's loss that a shadow's gap may rise by above its usual level.
        gap: largest gap of a shadow, in units of the loss; ``None``: no more than ``drift`` says.
        gap_is_relative: whether ``gap`` is a share of the baseline's loss.
        dry_run: only tell what would be done.

    Raises:
        ValueError: a number out of its range, or settings that contradict one another.
        TypeError: something that is no setting.

    Example:
        >>> Guard(escalate=None).rewind
        Rewind(limit=3, window=1000, batches=16)
        >>> Guard(rewind=None)
        Traceback (most recent call last):
        ...
        ValueError: Guard: escalate goes back to a snapshot, and rewind is off: set rewind, or escalate=None
    """

    clip: Clip | None = None
    scale: Scale | None = field(default_factory=Scale)
    skip: Skip | None = field(default_factory=Skip)
    rewind: Rewind | None = field(default_factory=Rewind)
    escalate: Escalate | None = field(default_factory=Escalate)
    stops: bool = True
    snapshots: Snapshots = field(default_factory=Snapshots)
    thresholds: Thresholds = field(default_factory=Thresholds)
    drift: float = 0.01
    gap: float | None = None
    gap_is_relative: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and not (value is None and name in _RUNGS):
                raise TypeError(
                    f"Guard: {name} is {value!r}, expected a {kind.__name__}" + " or None" * (name in _RUNGS)
                )
        for name in ("stops", "dry_run", "gap_is_relative"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"Guard: {name} is {getattr(self, name)!r}, expected True or False")
        if self.gap_is_relative and self.gap is None:
            raise ValueError("Guard: gap_is_relative says how gap counts, and there is no gap: give one")
        _at_least(self, 1e-6, "drift")
        _at_least(self, 0.0, *(("gap",) if self.gap is not None else ()))
        if self.rewind is None and self.escalate is not None:
            raise ValueError("Guard: escalate goes back to a snapshot, and rewind is off: set rewind, or escalate=None")
        if self.rewind is not None and self.rewind.window < self.snapshots.every:
            raise ValueError(
                f"Guard: a rewind counts for {self.rewind.window} steps and snapshots are {self.snapshots.every} "
                "apart, so that its limit is never reached: expected rewind.window of at least snapshots.every"
            )
        if self.dry_run and all(getattr(self, name) is None for name in _RUNGS):
            raise ValueError("Guard: dry_run tells what would be done, and every rung is off: set one, or no dry_run")

    def largest_gap(self, baseline: float) -> float | None:
        """The largest gap of a shadow at a baseline's loss, in its units; ``None`` without a target."""
        return self.gap if self.gap is None or not self.gap_is_relative else self.gap * abs(baseline)

    @property
    def rungs(self) -> tuple[str, ...]:
        """Those that are on, from the mildest to the last resort."""
        return (*(name for name in _RUNGS if getattr(self, name) is not None), *("stop",) * self.stops)


_RUNGS = ("clip", "scale", "skip", "rewind", "escalate")
_KINDS: Mapping[str, type] = MappingProxyType(
    {
        "clip": Clip,
        "scale": Scale,
        "skip": Skip,
        "rewind": Rewind,
        "escalate": Escalate,
        "snapshots": Snapshots,
        "thresholds": Thresholds,
    }
)
