"""The flight recorder: the last steps of a run in memory, and on disk when something goes wrong."""

from ._batch import BatchIdentity
from ._recorder import FlightRecorder
from ._state import DumpState, read_dump_state

__all__ = ["BatchIdentity", "DumpState", "FlightRecorder", "read_dump_state"]
