"""One contract for rounding tensors, and its backends.

Every function calls a torch operation ``mixprec::*``, so that ``torch.compile`` takes it as a whole. Inputs
are fp32, bf16 or fp16 with any strides; results are fp32 and contiguous. None passes a gradient on: call them
inside a ``torch.autograd.Function`` or under ``torch.no_grad()``.
"""

from ._contract import Backend, CastParameters, cast_parameters
from ._functions import amax, dequantize, hadamard, hadamard_inverse, quantize, round, scaled, scaled_both
from ._registry import backend_names, default_backend, get_backend

__all__ = [
    "Backend",
    "CastParameters",
    "amax",
    "backend_names",
    "cast_parameters",
    "default_backend",
    "dequantize",
    "get_backend",
    "hadamard",
    "hadamard_inverse",
    "quantize",
    "round",
    "scaled",
    "scaled_both",
]
