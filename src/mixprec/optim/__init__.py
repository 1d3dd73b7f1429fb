"""How weights and moments are kept: 16-bit parameters under any optimizer, and optimizers that step in one pass."""

from ._adamw import AdamW
from ._keep import keep_weights
from ._kept_weights import KeptWeights
from ._kernel_optimizer import KernelOptimizer
from ._options import SharedOptions
from ._sgd import SGD
from ._wide_gradients import HALF_DTYPES

__all__ = ["HALF_DTYPES", "SGD", "AdamW", "KeptWeights", "KernelOptimizer", "SharedOptions", "keep_weights"]
