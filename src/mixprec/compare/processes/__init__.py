"""Runs in processes of their own: of the user's command, and of a workload where several go at once."""

from ._black_box import BlackBox
from ._compare_commands import compare_commands
from ._run_in_processes import check_processes, run_in_processes, with_slots
from ._slots import slots_of

__all__ = ["BlackBox", "check_processes", "compare_commands", "run_in_processes", "slots_of", "with_slots"]
