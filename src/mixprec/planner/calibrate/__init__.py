"""This machine, measured: as hardware that predictions can be made for."""

from ._calibrate import calibrate, is_this_machine
from ._write import dump_hardware

__all__ = ["calibrate", "dump_hardware", "is_this_machine"]
