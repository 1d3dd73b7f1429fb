"""From what was measured of each group to what a search chooses from: times, bytes, and what is barred and why."""

from ._bars import Bar, bar_activations, bar_by_format, bar_by_layers, bar_by_score, bar_by_shape
from ._candidates import candidate_of
from ._layers import layers_of
from ._make_options import make_options

__all__ = [
    "Bar",
    "bar_activations",
    "bar_by_format",
    "bar_by_layers",
    "bar_by_score",
    "bar_by_shape",
    "candidate_of",
    "layers_of",
    "make_options",
]
