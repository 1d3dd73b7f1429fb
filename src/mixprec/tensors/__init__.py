"""Tensors in low-precision formats: codes and scales as one value, and what casts do to a tensor or a file."""

from ._analyze import analyze_file
from ._error import CastError, ErrorTable, error
from ._quantized import QuantizedTensor, fake_quantize, quantize
from ._sums import tree_sum

__all__ = [
    "CastError",
    "ErrorTable",
    "QuantizedTensor",
    "analyze_file",
    "error",
    "fake_quantize",
    "quantize",
    "tree_sum",
]
