"""What ``prepare`` has made of its options for a session."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..distributed import Ranks
from ..monitor import Listeners
from ..optim import NarrowedParameters
from ._run_folder import RunFolder
from ._schedules import Schedules
from ._watching import Unwatched


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parts of a session that options decide.

    Attributes:
        clip_norm: largest norm of the gradients, or ``None``.
        folder: of the run, or ``None``.
        total_steps: length of the run, where it is known.
        schedules: that the session steps.
        ranks: that take each step together.
        narrowed: parameters that were brought to 16 bits, if any were.
        notes: what there is to tell of the preparation.
        watching: tells those who watch.
        listeners: hear of its steps and events.
    """

    clip_norm: float | None
    folder: RunFolder | None
    total_steps: int | None
    schedules: Schedules
    ranks: Ranks
    narrowed: NarrowedParameters | None = None
    notes: tuple[str, ...] = ()
    watching: Unwatched = field(default_factory=Unwatched)
    listeners: Listeners
