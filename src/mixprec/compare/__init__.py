"""Run a workload under several recipes, with the same weights and data, and record what each costs and loses."""

from ._check import check_recipe
from ._compare import compare
from ._comparison import Comparison
from ._critical_values import plan_pairs
from ._estimate import Estimate, estimate
from ._folder import recorded, recorded_recipes
from ._loading import WorkloadSource, load_workload
from ._machine import machine_facts, package_versions
from ._memory import saved_activations
from ._metric_goal import MetricGoal, target_rows
from ._replay import Replayed, replay
from ._replay_target import Replay
from ._template import write_template
from ._traced import trace_workload
from ._user_code import WorkloadError
from ._workload import Workload
from .processes import BlackBox, compare_commands
from .training_run import Audience, Trained, Training, train
from .workloads import BUILT_IN

__all__ = [
    "BUILT_IN",
    "Audience",
    "BlackBox",
    "Comparison",
    "Estimate",
    "MetricGoal",
    "Replay",
    "Replayed",
    "Trained",
    "Training",
    "Workload",
    "WorkloadError",
    "WorkloadSource",
    "check_recipe",
    "compare",
    "compare_commands",
    "estimate",
    "load_workload",
    "machine_facts",
    "package_versions",
    "plan_pairs",
    "recorded",
    "recorded_recipes",
    "replay",
    "saved_activations",
    "target_rows",
    "trace_workload",
    "train",
    "write_template",
]
