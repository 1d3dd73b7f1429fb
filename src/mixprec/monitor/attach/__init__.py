"""Watching a loop that is somebody else's."""

from ._attach import attach
from ._monitor import Monitor

__all__ = ["Monitor", "attach"]
