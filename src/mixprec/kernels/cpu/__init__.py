"""The contract in C++: rounding at about the speed of a copy, on CPU tensors.

Importing this package raises ImportError where the compiled extension was not built.
"""

from ._backend import CpuBackend
from ._levels import LevelName, level_names

__all__ = ["CpuBackend", "LevelName", "level_names"]
