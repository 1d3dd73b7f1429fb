"""One contract for rounding tensors, and its backends.

Every function calls a torch operation ``mixprec::*``, so that ``torch.compile`` takes it as a whole. Inputs
are fp32, bf16 or fp16 with any strides; results are fp32 and contiguous. None passes a gradient on: call them
inside a ``torch.autograd.Function`` or under ``torch.no_grad()``.
"""

from ._contract import FIXED_SIGNS, Backend, Draw, SignKey, Sums, sign_key
from ._counters import Counters
from ._functions import (
    amax,
    delayed,
    dequantize,
    hadamard,
    hadamard_inverse,
    narrow_product,
    quantize,
    round,
    scaled,
    scaled_both,
    scaled_quantized,
)
from ._interleaved import scaled_interleaved
from ._no_values import has_no_values
from ._optimizer_contract import (
    AdamWRule,
    OptimizerBackend,
    Rule,
    SGDRule,
    Slot,
    StoredMoment,
    StoredWeight,
    WeightKind,
)
from ._optimizer_functions import (
    gradient_squares,
    load_moment,
    load_weight,
    optimizer_step,
    store_moment,
    store_weight,
)
from ._parameters import CastParameters, ElementParameters, cast_parameters
from ._registry import backend_names, default_backend, get_backend, optimizer_backend, statistics_backend
from ._statistics_contract import (
    CAST_COUNTS,
    CAST_NUMBERS,
    EXPONENTS,
    TENSOR_COUNTS,
    TENSOR_NUMBERS,
    Probe,
    RawStatistics,
    StatisticsBackend,
)
from ._statistics_functions import statistics
from ._step_plan import StepPlan

__all__ = [
    "CAST_COUNTS",
    "CAST_NUMBERS",
    "EXPONENTS",
    "FIXED_SIGNS",
    "TENSOR_COUNTS",
    "TENSOR_NUMBERS",
    "AdamWRule",
    "Backend",
    "CastParameters",
    "Counters",
    "Draw",
    "ElementParameters",
    "OptimizerBackend",
    "Probe",
    "RawStatistics",
    "Rule",
    "SGDRule",
    "SignKey",
    "Slot",
    "StatisticsBackend",
    "StepPlan",
    "StoredMoment",
    "StoredWeight",
    "Sums",
    "WeightKind",
    "amax",
    "backend_names",
    "cast_parameters",
    "default_backend",
    "delayed",
    "dequantize",
    "get_backend",
    "gradient_squares",
    "hadamard",
    "hadamard_inverse",
    "has_no_values",
    "load_moment",
    "load_weight",
    "narrow_product",
    "optimizer_backend",
    "optimizer_step",
    "quantize",
    "round",
    "scaled",
    "scaled_both",
    "scaled_interleaved",
    "scaled_quantized",
    "sign_key",
    "statistics",
    "statistics_backend",
    "store_moment",
    "store_weight",
]
