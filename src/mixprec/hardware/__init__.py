"""What machines exist and what they multiply natively."""

from ._catalog import find, names
from ._figure import Figure
from ._hardware import Hardware
from ._native import native_formats

__all__ = ["Figure", "Hardware", "find", "names", "native_formats"]
