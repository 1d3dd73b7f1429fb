"""What a step will take on a device, and what a run will cost there."""

from ._assignment import Assignment, assignment_of
from ._estimate_time import estimate_time, seconds_of
from ._run_cost import CostLine, Extras, RunCost, estimate_cost
from ._terms import StepTime, TimeTerm

__all__ = [
    "Assignment",
    "CostLine",
    "Extras",
    "RunCost",
    "StepTime",
    "TimeTerm",
    "assignment_of",
    "estimate_cost",
    "estimate_time",
    "seconds_of",
]
