"""From what a model multiplies and what rounding does to it to a recipe per layer, and to what it will cost."""

from ._candidate import KEEP, Candidate
from ._choice import Choice, Option
from ._inventory import Inventory, Parameter, Product, Traffic
from ._scores import CandidateScore, GroupScores, Scores
from .cost import Assignment, CostLine, Extras, RunCost, StepTime, TimeTerm, estimate_cost, estimate_time, seconds_of
from .parallel import (
    ParallelForecast,
    Parallelism,
    ParallelTerm,
    TransformerShape,
    plan_parallel,
    shape_of_config,
)
from .trace import LargestBatch, MemoryForecast, largest_batch, predict_memory, resized, take_inventory

__all__ = [
    "KEEP",
    "Assignment",
    "Candidate",
    "CandidateScore",
    "Choice",
    "CostLine",
    "Extras",
    "GroupScores",
    "Inventory",
    "LargestBatch",
    "MemoryForecast",
    "Option",
    "ParallelForecast",
    "ParallelTerm",
    "Parallelism",
    "Parameter",
    "Product",
    "RunCost",
    "Scores",
    "StepTime",
    "TimeTerm",
    "Traffic",
    "TransformerShape",
    "estimate_cost",
    "estimate_time",
    "largest_batch",
    "plan_parallel",
    "predict_memory",
    "resized",
    "seconds_of",
    "shape_of_config",
    "take_inventory",
]
