"""This machine, measured: as hardware that predictions can be made for."""

from ._calibrate import calibrate, is_this_machine
from ._stopwatch import Stopwatch
from ._write import dump_hardware

__all__ = ["Stopwatch", "calibrate", "dump_hardware", "is_this_machine"]
