"""A transformer over many devices, on paper: memory of the fullest one, and a step's computation and communication."""

from ._forecast import ParallelForecast, ParallelTerm
from ._hugging_face import shape_of_config
from ._layout import Parallelism
from ._plan_parallel import plan_parallel
from ._shape import TransformerShape

__all__ = [
    "ParallelForecast",
    "ParallelTerm",
    "Parallelism",
    "TransformerShape",
    "plan_parallel",
    "shape_of_config",
]
