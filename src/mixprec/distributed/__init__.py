"""What ranks must agree on: whether a step is finite, who takes part in it, its norm."""

from ._opinion import Opinion
from ._ranks import Alone, Group, Ranks, ranks_of
from ._sharded import is_sharded, local_values, total_squares

__all__ = ["Alone", "Group", "Opinion", "Ranks", "is_sharded", "local_values", "ranks_of", "total_squares"]
