"""A guard at work: a session's steps are looked at, left out, gone back from; batches and snapshots follow."""

from ._guarded import Guarded
from ._guarding import Guarding
from ._ruling import Ruling
from ._run_stopped import RunStopped
from ._state_meter import StateMeter
from ._unguarded import Unguarded

__all__ = ["Guarded", "Guarding", "Ruling", "RunStopped", "StateMeter", "Unguarded"]
