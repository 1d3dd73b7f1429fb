"""The contract in C++: rounding at about the speed of a copy, on CPU tensors.

Importing this package raises ImportError where the compiled extension was not built, or from other sources.
"""

from ._abi import BINDINGS  # the first import: it refuses an extension that the others would call in vain
from ._backend import CpuBackend
from ._levels import LevelName, level_names

__all__ = ["BINDINGS", "CpuBackend", "LevelName", "level_names"]
