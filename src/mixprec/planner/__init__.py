"""From what a model multiplies and what rounding does to it to a recipe per layer, and to what it will cost."""

from ._candidate import KEEP, Candidate
from ._choice import Choice, Option, Quantity
from ._inventory import Inventory, Parameter, Product, Traffic
from ._scores import CandidateScore, GroupScores, Scores
from ._targets import CostTarget, LatencyTarget, LayerTarget, MemoryTarget, QualityTarget, Targets
from ._targets_file import write_targets_template
from .cost import Assignment, CostLine, Extras, RunCost, StepTime, TimeTerm, estimate_cost, estimate_time, seconds_of
from .knapsack import pareto, search
from .parallel import (
    ParallelForecast,
    Parallelism,
    ParallelTerm,
    TransformerShape,
    plan_parallel,
    shape_of_config,
)
from .scores import Effort, default_candidates, measure_scores
from .trace import LargestBatch, MemoryForecast, largest_batch, predict_memory, resized, take_inventory

__all__ = [
    "KEEP",
    "Assignment",
    "Candidate",
    "CandidateScore",
    "Choice",
    "CostLine",
    "CostTarget",
    "Effort",
    "Extras",
    "GroupScores",
    "Inventory",
    "LargestBatch",
    "LatencyTarget",
    "LayerTarget",
    "MemoryForecast",
    "MemoryTarget",
    "Option",
    "ParallelForecast",
    "ParallelTerm",
    "Parallelism",
    "Parameter",
    "Product",
    "QualityTarget",
    "Quantity",
    "RunCost",
    "Scores",
    "StepTime",
    "Targets",
    "TimeTerm",
    "Traffic",
    "TransformerShape",
    "default_candidates",
    "estimate_cost",
    "estimate_time",
    "largest_batch",
    "measure_scores",
    "pareto",
    "plan_parallel",
    "predict_memory",
    "resized",
    "search",
    "seconds_of",
    "shape_of_config",
    "take_inventory",
    "write_targets_template",
]
