"""From what a model multiplies and what rounding does to it to a recipe per layer, and to what it will cost."""

from ._candidate import KEEP, Candidate
from ._choice import Choice, Option
from ._inventory import Inventory, Parameter, Product, Traffic
from ._scores import CandidateScore, GroupScores, Scores
from .trace import LargestBatch, MemoryForecast, largest_batch, predict_memory, resized, take_inventory

__all__ = [
    "KEEP",
    "Candidate",
    "CandidateScore",
    "Choice",
    "GroupScores",
    "Inventory",
    "LargestBatch",
    "MemoryForecast",
    "Option",
    "Parameter",
    "Product",
    "Scores",
    "Traffic",
    "largest_batch",
    "predict_memory",
    "resized",
    "take_inventory",
]
