"""Tensors in low-precision formats: codes and scales as one value, what casts do, amax histories."""

from ._analyze import analyze_file
from ._error import CastError, ErrorTable, error
from ._files import load_tensors
from ._history import amax_of, record, roll
from ._quantized import QuantizedTensor, fake_quantize, quantize
from ._statistics import TensorStatistics, read_statistics
from ._sums import tree_sum

__all__ = [
    "CastError",
    "ErrorTable",
    "QuantizedTensor",
    "TensorStatistics",
    "amax_of",
    "analyze_file",
    "error",
    "fake_quantize",
    "load_tensors",
    "quantize",
    "read_statistics",
    "record",
    "roll",
    "tree_sum",
]
