"""What a comparison's numbers can tell, as tables: gaps with intervals, verdicts on targets, times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ._bootstrap import ENOUGH
from ._judge import is_gap_resolved, judge, worst_first
from ._paired import Gap
from ._power_told import pairs_told, power_told
from ._summary import RecipeSummary, Summary
from ._tables import EMULATED, Table
from ._timing import Timing
from ._types import TargetUnit
from ._verdict import Verdict
from ._wording import NOTHING, difference, duration, number, size, times

_FORMS: Mapping[TargetUnit, Callable[[float], str]] = {
    "absolute": difference,
    "relative": difference,
    "ratio": times,
    "share": times,
    "milliseconds": lambda value: duration(value / 1e3),
    "bytes": lambda value: size(round(value)),
    "price": number,
}


def gaps_table(summary: Summary, most: int | None = None) -> Table | None:
    """Each recipe's gap in each metric, the worst first, with intervals and what the pairs can resolve.

    Args:
        summary: of the comparison.
        most: metrics of a recipe that are shown, the loss and those with targets beside; ``None``: all.

    Returns:
        ``None`` where nothing is paired.

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> table = gaps_table(summarize(
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + 0.1 * seed})
        ...     for seed in (0, 1, 2)
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.002 + 0.01 * (seed - 1)))
        ... ))
        >>> table.rows[0][:4], table.rows[0][5:]
        (('bf16', 'loss', '+0.0020', '−0.0228 to +0.0268'), ('0.033', '3', 'no'))
    """
    rows: list[tuple[str, ...]] = []
    few = False
    for row in summary.rows:
        for name in _shown(row, summary, most) if row.recipe != summary.baseline else ():
            gap = row.quality[name].gap
            if gap.mean is not None:
                few = few or (gap.bootstrap is not None and gap.seeds < ENOUGH)
                rows.append((row.recipe, name, *_gap_cells(gap, is_gap_resolved(row, name, summary))))
    if not rows:
        return None
    confidence = "95 %" if summary.plan is None else "97.5 %, all looks together"
    notes = [f"interval: {confidence}, Student's t over pairs; bootstrap: 95 %, studentized, beside it"]
    if few:
        notes.append(f"bootstrap: of fewer than {ENOUGH} pairs it covers less often, or reaches farther, than it says")
    against = [target["name"].partition(".")[2] for target in summary.targets if target["name"].startswith("quality.")]
    if against:
        notes.append(f"resolved: {', '.join(against)} against the target, whatever has none against 0")
    notes += _resolvable(summary)
    headers = ("recipe", "metric", "gap", "interval", "bootstrap", "resolvable", "pairs", "resolved")
    return Table(headers=headers, rows=tuple(rows), notes=tuple(notes))


def _shown(row: RecipeSummary, summary: Summary, most: int | None) -> tuple[str, ...]:
    names = worst_first(row, summary)
    asked = {"loss", *(target["name"].partition(".")[2] for target in summary.targets)}
    return tuple(name for i, name in enumerate(names) if most is None or i < most or name in asked)


def _gap_cells(gap: Gap, resolved: bool) -> tuple[str, ...]:
    resolvable = gap.resolvable()
    return (
        difference(gap.mean, gap.sd),
        _span(gap.interval, gap.sd),
        _span(gap.bootstrap, gap.sd),
        NOTHING if resolvable is None else f"{resolvable:.2g}",
        str(gap.seeds),
        "identical" if gap.identical else "yes" if resolved else "no",
    )


def _span(interval: tuple[float, float] | None, sd: float | None) -> str:
    return NOTHING if interval is None else f"{difference(interval[0], sd)} to {difference(interval[1], sd)}"


def _resolvable(summary: Summary) -> list[str]:
    """What the loss's pairs can tell, one sentence for each recipe whose gap is not resolved."""
    found: list[str] = []
    for row in summary.rows:
        gap = None if row.loss is None or row.recipe == summary.baseline else row.loss.gap
        told = "" if gap is None or gap.resolved or gap.identical else power_told(gap, pairs_told(summary, row))
        found += [f"loss of {row.recipe}: {told}"] if told else []
    return found


def verdicts_table(summary: Summary) -> Table | None:
    """Each recipe against each target, the worst first; ``None`` without targets."""
    found = judge(summary)
    rows = tuple(
        (
            verdict.recipe,
            verdict.target,
            verdict.outcome,
            NOTHING if verdict.measured is None else _FORMS[verdict.unit](verdict.measured),
            _bounds(verdict),
            NOTHING if math.isnan(verdict.limit) else _FORMS[verdict.unit](verdict.limit),
        )
        for verdict in found
    )
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in found:
        if verdict.reason:
            reasons.setdefault((verdict.target, verdict.reason), []).append(verdict.recipe)
    notes = (
        "a gap counts in the direction that is worse: met where its whole interval keeps the limit",
        *(f"{target} of {', '.join(recipes)}: {reason}" for (target, reason), recipes in reasons.items()),
    )
    headers = ("recipe", "target", "verdict", "measured", "interval", "at most")
    return Table(headers=headers, rows=rows, notes=notes) if rows else None


def _bounds(verdict: Verdict) -> str:
    if verdict.interval is None:
        return NOTHING
    return " to ".join(_FORMS[verdict.unit](bound) for bound in verdict.interval)


def times_table(summary: Summary) -> Table | None:
    """Step times with their slowest, throughput, and the time to the baseline's final loss; ``None`` where none is."""
    rows = [(row, row.timing) for row in summary.rows if row.timing is not None]
    if not rows:
        return None
    columns = {
        "step": [duration(row.step_seconds) for row, _ in rows],
        "ratio": [_ratio(row, timing, summary) for row, timing in rows],
        "p95": [duration(timing.p95) for _, timing in rows],
        "p99": [duration(timing.p99) for _, timing in rows],
        "tokens/s": [_rate(timing.tokens_per_second) for _, timing in rows],
        "steps to equal loss": [_steps(row, summary) for row, _ in rows],
        "speed-up at equal loss": [_speed_up(row, summary) for row, _ in rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    return Table(
        headers=("recipe", *shown),
        rows=tuple((row.recipe, *(cells[i] for cells in shown.values())) for i, (row, _) in enumerate(rows)),
        notes=tuple(_time_notes(summary)),
    )


def _ratio(row: RecipeSummary, timing: Timing, summary: Summary) -> str:
    if row.recipe == summary.baseline or row.time_ratio is None:
        return NOTHING
    interval = timing.ratio_interval
    return times(row.time_ratio) + ("" if interval is None else f" ({times(interval[0])} to {times(interval[1])})")


def _rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _steps(row: RecipeSummary, summary: Summary) -> str:
    found = row.to_quality
    if found is None or row.recipe == summary.baseline:
        return NOTHING
    of = "" if found.reached == len(found.per_seed) else f" (reached by {found.reached} of {len(found.per_seed)})"
    return ("not reached" if found.steps_ratio is None else times(found.steps_ratio)) + of


def _speed_up(row: RecipeSummary, summary: Summary) -> str:
    if row.recipe == summary.baseline or row.speed_up is None:
        return NOTHING
    return times(row.speed_up) + (" (emulated)" if row.emulated else "")


def _time_notes(summary: Summary) -> list[str]:
    notes = [f"equal loss: the training loss that {summary.baseline} ends at, a mean over a tenth of the steps"]
    baseline = summary.row(summary.baseline)
    timing = None if baseline is None else baseline.timing
    if timing is not None and timing.split_half is not None and timing.interquartile is not None:
        notes.append(
            f"this machine: {summary.baseline}'s step time differs by {_percent(timing.split_half)} between halves of "
            f"a run, and its quartiles by {_percent(timing.interquartile)}; a ratio so near to 1 tells nothing"
        )
    if any(row.emulated for row in summary.rows):
        notes.append(f"{EMULATED}: no time of that recipe is a promise of speed")
    return notes


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if share < 0.1 else 0}f} %"
