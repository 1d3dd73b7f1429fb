"""Before training: one watched step, and what will go wrong."""

from ._check_step import check_step
from ._preflight import Preflight
from ._run import run_check
from ._setting import Setting

__all__ = ["Preflight", "Setting", "check_step", "run_check"]
