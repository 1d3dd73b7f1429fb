"""The session: the only place where recipe, model, optimizer, loss scale and monitor meet."""

from ._memory import Memory
from ._prepare import prepare
from ._result import Event, StepResult
from ._session import Session

__all__ = ["Event", "Memory", "Session", "StepResult", "prepare"]
