"""The NaN locator: replays a step that went bad, and names the first bad value by its site, with the likely cause."""

from ._fault import LOSS, Fault
from ._locate import locate
from ._locator import Locator
from ._recording import MicroBatch, StepRecording
from ._replay import is_sharded
from .causes import CAUSES, Cause

__all__ = ["CAUSES", "LOSS", "Cause", "Fault", "Locator", "MicroBatch", "StepRecording", "is_sharded", "locate"]
