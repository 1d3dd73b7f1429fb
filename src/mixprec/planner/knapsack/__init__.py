"""The best candidate for every group under limits: a multiple-choice knapsack, solved exactly."""

from ._pareto import pareto
from ._search import search

__all__ = ["pareto", "search"]
