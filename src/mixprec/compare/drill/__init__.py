"""Rehearsing recovery: faults planted into short runs of a workload, and what the guard makes of them."""

from ._fault import Fault, Place
from ._faults import FAULTS

__all__ = ["FAULTS", "Fault", "Place"]
