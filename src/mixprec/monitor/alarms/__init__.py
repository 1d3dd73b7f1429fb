"""Alarms: what in a run's numbers is worth telling, once."""

from ._alarms import Alarms
from ._curve import MAD_TO_DEVIATION, Past
from ._thresholds import Thresholds

__all__ = ["MAD_TO_DEVIATION", "Alarms", "Past", "Thresholds"]
