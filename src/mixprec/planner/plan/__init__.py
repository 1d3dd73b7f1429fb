"""A plan: the recipe of a choice, and what it rests on."""

from ._compile import compile_rules
from ._evidence import Evidence, GroupEvidence, Measured, Predicted, SiteCheck, Spent, Verdict
from ._explain import explain
from ._plan import Plan
from ._plan_of_choice import Asked, plan_of_choice

__all__ = [
    "Asked",
    "Evidence",
    "GroupEvidence",
    "Measured",
    "Plan",
    "Predicted",
    "SiteCheck",
    "Spent",
    "Verdict",
    "compile_rules",
    "explain",
    "plan_of_choice",
]
