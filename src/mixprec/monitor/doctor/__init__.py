"""The doctor: what was wrong with a run, from what it left on disk, in order of weight, and what to do."""

from ._contents import OneRun, RunContents, read_run
from ._diagnose import diagnose
from ._diagnosis import DIAGNOSIS_SCHEMA_VERSION, Diagnosed, Diagnosis, DumpSummary
from ._rules import with_rule

__all__ = [
    "DIAGNOSIS_SCHEMA_VERSION",
    "Diagnosed",
    "Diagnosis",
    "DumpSummary",
    "OneRun",
    "RunContents",
    "diagnose",
    "read_run",
    "with_rule",
]
