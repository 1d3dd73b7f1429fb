"""From what a model multiplies and what rounding does to it to a recipe per layer, and to what it will cost."""

from ._candidate import KEEP, Candidate
from ._choice import Choice, Option
from ._inventory import Inventory, Parameter, Product, Traffic
from ._scores import CandidateScore, GroupScores, Scores
from .cost import Assignment, CostLine, Extras, RunCost, StepTime, TimeTerm, estimate_cost, estimate_time, seconds_of
from .trace import take_inventory

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
    "Option",
    "Parameter",
    "Product",
    "RunCost",
    "Scores",
    "StepTime",
    "TimeTerm",
    "Traffic",
    "estimate_cost",
    "estimate_time",
    "seconds_of",
    "take_inventory",
]
