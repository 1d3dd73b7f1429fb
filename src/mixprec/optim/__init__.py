"""How a weight is kept: 16-bit parameters with fp32 masters, or as they are."""

from ._keep import KeptWeights, keep_weights
from ._masters import MasterPair

__all__ = ["KeptWeights", "MasterPair", "keep_weights"]
