"""What of a session a guard works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...distributed import Ranks
from ...monitor import Listeners
from ...optim import KeptWeights
from ...records import IncidentRecord
from .._checkpoint_parts import Owners, Restorable
from .._result import Event
from .._scales import LossScales


@dataclass(frozen=True, kw_only=True)
class Guarding:
    """The parts of a session, and what it can be asked for.

    Attributes:
        kept: weights, by the optimizer's name.
        scales: of the losses.
        ranks: that decide together.
        listeners: hear of incidents, and what was sampled.
        owners: of the session's states, with more of them by name.
        widen: gives sites wider casts.
        narrow: sites that it can do so.
        tell: takes events.
        applied: how many steps are.
        incidents: that the run folder holds, the last record of each.
        folder: for states on disk; ``None``: there is none.
    """

    kept: Mapping[str, KeptWeights]
    scales: LossScales
    ranks: Ranks
    listeners: Listeners
    owners: Callable[[Mapping[str, Restorable]], Owners]
    widen: Callable[[Iterable[str], str | None], object]
    narrow: Callable[[], tuple[str, ...]]
    tell: Callable[[Sequence[Event]], None]
    applied: Callable[[], int]
    incidents: tuple[IncidentRecord, ...] = ()
    folder: Path | None = None
