"""How weights and moments are kept: 16-bit parameters with fp32 masters, or as they are."""

from ._keep import keep_weights
from ._kept_weights import KeptWeights
from ._wide_gradients import HALF_DTYPES

__all__ = ["HALF_DTYPES", "KeptWeights", "keep_weights"]
