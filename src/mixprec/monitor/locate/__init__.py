"""The locator: a bad step is run again, watched, and the first operation that went wrong is named."""

from ._causes import CAUSES, Cause
from ._fault import Fault
from ._locate import locate
from ._locator import Locator, NotReproduced
from ._recording import StepRecording
from ._values import TensorFacts

__all__ = ["CAUSES", "Cause", "Fault", "Locator", "NotReproduced", "StepRecording", "TensorFacts", "locate"]
