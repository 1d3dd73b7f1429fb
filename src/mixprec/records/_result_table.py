"""What a comparison found, for a paper or a spreadsheet: every metric with the interval of its gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from ._judge import is_gap_resolved
from ._paired import Metric
from ._summary import RecipeSummary, Summary
from ._tables import Table, unequal_seeds
from ._wording import NOTHING, difference, number, size, times

_HEADERS = ("recipe", "figure", "forward", "seeds", "value", "gap", "gap_low", "gap_high", "resolved")
#: Figures without a gap: names with their units, and how they are found.
_COSTS: Mapping[str, Callable[[RecipeSummary], float | None]] = MappingProxyType(
    {
        "step_seconds": lambda row: row.step_seconds,
        "step_time_ratio": lambda row: row.time_ratio,
        "saved_activation_bytes": lambda row: row.saved_activation_bytes,
        "saved_activation_ratio": lambda row: row.saved_ratio,
        "peak_bytes": lambda row: row.peak_bytes,
        "peak_ratio": lambda row: row.peak_ratio,
        "steps": lambda row: row.steps,
        "skipped_steps": lambda row: row.skipped_steps,
    }
)


def result_table(summary: Summary) -> Table:
    """A row for each recipe, in words: metrics, gaps with their 95 % intervals, costs.

    Columns without a word are left out.

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> found = summarize(
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + seed * more})
        ...     for name, loss, more in (("fp32", 2.0, 0.0), ("bf16", 2.01, 0.003))
        ...     for seed in (0, 1, 2)
        ... )
        >>> result_table(found).rows[1]
        ('bf16', '2.0130', '+0.0130 [+0.0055, +0.0205]')
    """
    names = list(dict.fromkeys(name for row in summary.rows for name in row.metrics))
    columns: dict[str, list[str]] = {"status": ["" if row.status == "done" else row.status for row in summary.rows]}
    for name in names:
        found = [row.metrics.get(name) for row in summary.rows]
        columns[name] = [NOTHING if metric is None else number(metric.mean) for metric in found]
        columns[f"gap in {name}"] = [
            "" if row.recipe == summary.baseline else _gap(metric)
            for row, metric in zip(summary.rows, found, strict=True)
        ]
    columns["loss in fp32"] = ["" if row.fp32_loss is None else number(row.fp32_loss.mean) for row in summary.rows]
    columns["step time"] = [times(row.time_ratio) for row in summary.rows]
    columns["saved activations"] = [size(row.saved_activation_bytes) for row in summary.rows]
    columns["peak memory"] = [size(row.peak_bytes) for row in summary.rows]
    columns["skipped steps"] = [str(row.skipped_steps or "") for row in summary.rows]
    shown = {name: cells for name, cells in columns.items() if any(cell not in ("", NOTHING) for cell in cells)}
    if set(shown.get("status", ())) == {"unfinished"}:  # records of a loop tell of no end
        del shown["status"]
    return Table(
        headers=("recipe", *shown),
        rows=tuple(
            (row.recipe, *(cells[i] or NOTHING for cells in shown.values())) for i, row in enumerate(summary.rows)
        ),
        notes=tuple(unequal_seeds(summary)),
    )


def figures_table(summary: Summary) -> Table:
    """A row for each recipe and figure, in digits that lose nothing; cells without a number are empty.

    Columns: recipe, figure (a metric or a cost with its unit), forward (``recipe`` or ``fp32``), seeds, value (mean
    over seeds), gap to the baseline (mean of the paired differences) with its 95 % interval, and whether it is
    resolved (in the recipe's own forward against its target, where it has one; else against 0).

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> record = EvaluationRecord(recipe="fp32", seed=0, step=9, forward="recipe", metrics={"loss": 0.1})
        >>> figures_table(summarize([record])).rows[0]
        ('fp32', 'loss', 'recipe', '1', '0.1', '', '', '', '')
    """
    return Table(headers=_HEADERS, rows=tuple(cells for row in summary.rows for cells in _figures(row, summary)))


def _figures(row: RecipeSummary, summary: Summary) -> Iterator[tuple[str, ...]]:
    is_baseline = row.recipe == summary.baseline
    for forward, metrics in (("recipe", row.metrics), ("fp32", row.fp32_metrics)):
        for name, metric in metrics.items():
            resolved = is_gap_resolved(row, name, summary) if forward == "recipe" else metric.gap.resolved
            gap = ("", "", "", "") if is_baseline else _gap_cells(metric, resolved)
            yield (row.recipe, name, forward, str(len(metric.per_seed)), _digits(metric.mean), *gap)
    for name, cost in _COSTS.items():
        if (value := cost(row)) is not None:
            yield (row.recipe, name, "", str(len(row.runs)), _digits(value), "", "", "", "")


def _gap(metric: Metric | None) -> str:
    if metric is None or metric.gap.mean is None:
        return NOTHING
    if metric.gap.identical:
        return "identical"
    mean, interval = difference(metric.gap.mean, metric.gap.sd), metric.gap.interval
    if interval is None:
        return mean
    low, high = (difference(end, metric.gap.sd) for end in interval)
    return f"{mean} [{low}, {high}]"


def _gap_cells(metric: Metric, resolved: bool) -> tuple[str, str, str, str]:
    low, high = metric.gap.interval or (None, None)
    told = "" if low is None else "yes" if resolved else "no"
    return _digits(metric.gap.mean), _digits(low), _digits(high), told


def _digits(value: float | None) -> str:
    return "" if value is None else repr(value)
