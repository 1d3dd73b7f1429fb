"""Alarms: what in a run's numbers is worth telling, once."""

from ._alarms import Alarms
from ._curve import MAD_TO_DEVIATION
from ._levels import High, LossLevel, NormLevel
from ._thresholds import Thresholds

__all__ = ["MAD_TO_DEVIATION", "Alarms", "High", "LossLevel", "NormLevel", "Thresholds"]
