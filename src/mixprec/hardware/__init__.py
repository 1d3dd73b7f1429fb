"""What machines exist, how fast they are, and what they multiply natively."""

from ._catalog import find, names
from ._figure import Figure
from ._file import load_hardware
from ._hardware import BLOCK_RATES, RATES, Hardware
from ._measured import CastCost, Curve, Grid, Measured
from ._native import native_formats

__all__ = [
    "BLOCK_RATES",
    "RATES",
    "CastCost",
    "Curve",
    "Figure",
    "Grid",
    "Hardware",
    "Measured",
    "find",
    "load_hardware",
    "names",
    "native_formats",
]
