"""Plans of a workload: measured at its own weights on its own data, and proved in a paired run."""

from ._make_plan import Planned, front_of, make_plan, plan_workload
from ._measure import Basis, Scorer, Timing
from ._prove import ProofSettings, loss_under, prove
from ._request import PlanRequest
from ._start import Start, start_after, start_from
from ._verdicts import exit_status, quality_verdict

__all__ = [
    "Basis",
    "PlanRequest",
    "Planned",
    "ProofSettings",
    "Scorer",
    "Start",
    "Timing",
    "exit_status",
    "front_of",
    "loss_under",
    "make_plan",
    "plan_workload",
    "prove",
    "quality_verdict",
    "start_after",
    "start_from",
]
