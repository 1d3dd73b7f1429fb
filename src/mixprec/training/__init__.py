"""The session: the only place where recipe, model, optimizer, loss scale and monitor meet."""

from ._memory import Memory
from ._prepare import prepare
from ._result import Event, StepResult
from ._resumed import Resumed
from ._session import Session
from ._shadow import Shadow
from ._statistics import StatisticsKeeper
from .checkpoint import CheckpointDamaged, CheckpointNotWritten
from .guarding import Guarded, RunStopped

__all__ = [
    "CheckpointDamaged",
    "CheckpointNotWritten",
    "Event",
    "Guarded",
    "Memory",
    "Resumed",
    "RunStopped",
    "Session",
    "Shadow",
    "StatisticsKeeper",
    "StepResult",
    "prepare",
]
