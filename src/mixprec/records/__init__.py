"""What a run says of itself: records as JSON lines with a schema version, and their summary."""

from ._lines import read_records, write_records
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
    "RECORD_TYPES",
    "SCHEMA_VERSION",
    "ComparisonRecord",
    "CoverageRecord",
    "CoverageRow",
    "EvaluationRecord",
    "EventRecord",
    "Forward",
    "MemoryRecord",
    "Record",
    "RunEndRecord",
    "Status",
    "StepRecord",
    "read_records",
    "write_records",
]
