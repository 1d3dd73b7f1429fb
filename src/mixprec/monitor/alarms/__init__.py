"""Alarms: what in a run's numbers is worth telling, once."""

from ._alarms import Alarms
from ._thresholds import Thresholds

__all__ = ["Alarms", "Thresholds"]
