"""What a run says of itself: records as JSON lines with a schema version, and their summary."""

from ._headline import headline
from ._lines import read_records, write_records
from ._paired import Gap, Metric
from ._summarize import summarize
from ._summary import RecipeSummary, RunStatus, SeedRun, Summary
from ._tables import EMULATED_NOTE, Table, metrics_table, summary_table
from ._types import (
    RECORD_TYPES,
    SCHEMA_VERSION,
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    EventRecord,
    Forward,
    MemoryRecord,
    Record,
    RunEndRecord,
    Status,
    StepRecord,
)

__all__ = [
    "EMULATED_NOTE",
    "RECORD_TYPES",
    "SCHEMA_VERSION",
    "ComparisonRecord",
    "CoverageRecord",
    "CoverageRow",
    "EvaluationRecord",
    "EventRecord",
    "Forward",
    "Gap",
    "MemoryRecord",
    "Metric",
    "RecipeSummary",
    "Record",
    "RunEndRecord",
    "RunStatus",
    "SeedRun",
    "Status",
    "StepRecord",
    "Summary",
    "Table",
    "headline",
    "metrics_table",
    "read_records",
    "summarize",
    "summary_table",
    "write_records",
]
