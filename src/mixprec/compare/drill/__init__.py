"""Rehearsing recovery: faults planted into short runs of a workload, and what the guard makes of them."""

from ._drilled import LEAST_SEEDS, LEAST_STEPS, Drill, Drilled, FaultRun, HealthyRun
from ._fault import Fault, Place
from ._faults import FAULTS
from ._run_drill import run_drill
from ._short_workload import short_workload
from ._told import rungs_told, told_fault, told_healthy
from ._write import drilled_json

__all__ = [
    "FAULTS",
    "LEAST_SEEDS",
    "LEAST_STEPS",
    "Drill",
    "Drilled",
    "Fault",
    "FaultRun",
    "HealthyRun",
    "Place",
    "drilled_json",
    "run_drill",
    "rungs_told",
    "short_workload",
    "told_fault",
    "told_healthy",
]
