"""How weights and moments are kept: 16-bit parameters under any optimizer, and optimizers that step in one pass."""

from ._adamw import AdamW
from ._average import WeightAverage
from ._eps import lost_eps
from ._keep import keep_weights
from ._kept_weights import KeptWeights
from ._narrow import NarrowedParameters, narrow_parameters
from ._options import SharedOptions
from ._sgd import SGD
from ._wide_gradients import HALF_DTYPES, scale_gradients

__all__ = [
    "HALF_DTYPES",
    "SGD",
    "AdamW",
    "KeptWeights",
    "NarrowedParameters",
    "SharedOptions",
    "WeightAverage",
    "keep_weights",
    "lost_eps",
    "narrow_parameters",
    "scale_gradients",
]
