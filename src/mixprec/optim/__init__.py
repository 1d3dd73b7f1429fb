"""How a weight is kept: 16-bit parameters with fp32 masters, or as they are."""

from ._keep import KeptWeights, keep_weights
from ._masters import HALF_DTYPES, MasterPair

__all__ = ["HALF_DTYPES", "KeptWeights", "MasterPair", "keep_weights"]
