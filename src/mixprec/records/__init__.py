"""What a run says of itself: records as JSON lines with a schema version, and their summary."""

from ._analysis import (
    ANALYSIS_SCHEMA_VERSION,
    AnalysisRecord,
    AnalysisRow,
    AnalysisTotal,
    SkippedTensor,
    analysis_csv,
    analysis_json,
)
from ._headline import headline
from ._lines import read_records, write_records
from ._memory_tables import MEMORY_KINDS, grouped, memory_table, per_parameter, sites_table
from ._paired import Gap, Metric
from ._recipe_records import RecipeRecords, group_by_recipe
from ._summarize import summarize
from ._summary import RecipeSummary, RunStatus, SeedRun, Summary
from ._tables import EMULATED_NOTE, Table, metrics_table, seeds_table, summary_table
from ._types import (
    RECORD_TYPES,
    RESUMED,
    SCHEMA_VERSION,
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    EventRecord,
    FindingRecord,
    Forward,
    MemoryRecord,
    Record,
    RunEndRecord,
    Severity,
    StatisticsRecord,
    Status,
    StepRecord,
    UpdateRecord,
)
from ._wording import NOTHING, count, percent, size

__all__ = [
    "ANALYSIS_SCHEMA_VERSION",
    "EMULATED_NOTE",
    "MEMORY_KINDS",
    "NOTHING",
    "RECORD_TYPES",
    "RESUMED",
    "SCHEMA_VERSION",
    "AnalysisRecord",
    "AnalysisRow",
    "AnalysisTotal",
    "ComparisonRecord",
    "CoverageRecord",
    "CoverageRow",
    "EvaluationRecord",
    "EventRecord",
    "FindingRecord",
    "Forward",
    "Gap",
    "MemoryRecord",
    "Metric",
    "RecipeRecords",
    "RecipeSummary",
    "Record",
    "RunEndRecord",
    "RunStatus",
    "SeedRun",
    "Severity",
    "SkippedTensor",
    "StatisticsRecord",
    "Status",
    "StepRecord",
    "Summary",
    "Table",
    "UpdateRecord",
    "analysis_csv",
    "analysis_json",
    "count",
    "group_by_recipe",
    "grouped",
    "headline",
    "memory_table",
    "metrics_table",
    "per_parameter",
    "percent",
    "read_records",
    "seeds_table",
    "sites_table",
    "size",
    "summarize",
    "summary_table",
    "write_records",
]
