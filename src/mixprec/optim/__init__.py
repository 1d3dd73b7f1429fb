"""How weights and moments are kept: 16-bit parameters under any optimizer, and optimizers that step in one pass."""

from ._adamw import AdamW
from ._average import WeightAverage
from ._keep import keep_weights
from ._kept_weights import KeptWeights
from ._narrow import NarrowedParameters, narrow_parameters
from ._options import SharedOptions
from ._sgd import SGD
from ._wide_gradients import HALF_DTYPES

__all__ = [
    "HALF_DTYPES",
    "SGD",
    "AdamW",
    "KeptWeights",
    "NarrowedParameters",
    "SharedOptions",
    "WeightAverage",
    "keep_weights",
    "narrow_parameters",
]
