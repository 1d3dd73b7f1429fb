"""What each candidate would do to each group of sites, from one forward and backward pass a batch."""

from ._defaults import default_candidates
from ._effort import Effort
from ._measure import measure_scores

__all__ = ["Effort", "default_candidates", "measure_scores"]
