"""A summary as tables of text, which the terminal and the report both show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ._judge import has_no_baseline, is_gap_resolved, worst_metrics
from ._paired import Metric
from ._summary import RecipeSummary, Summary
from ._timing import UNTIMED_STEPS
from ._wording import NOTHING, count, difference, duration, number, percent, size, spread, times

#: What is said of an emulated recipe; wherever its time ratio is shown, the second.
EMULATED = "here: emulated"
EMULATED_NOTE = f"{EMULATED} — the time ratio is no promise of speed"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Text in rows and columns.

    Attributes:
        headers: of the columns.
        rows: cells; the first of each row names it.
        notes: what must be read with it, one sentence each.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def summary_table(summary: Summary) -> Table:
    """The main table: what each recipe costs and loses.

    Columns that no recipe has anything to say in (skipped steps, say) are left out.

    Example:
        >>> from mixprec.records import EvaluationRecord, RunEndRecord, summarize
        >>> evaluation = EvaluationRecord(recipe="fp32", seed=0, step=9, forward="recipe", metrics={"loss": 2.5})
        >>> table = summary_table(summarize([evaluation, RunEndRecord(recipe="fp32", seed=0, status="done")]))
        >>> table.headers, table.rows
        (('recipe', 'loss'), (('fp32', '2.5000'),))
    """
    columns = {
        "status": [_status(row) for row in summary.rows],
        "loss": [_value(row.loss) for row in summary.rows],
        "loss in fp32": [_value(row.fp32_loss) for row in summary.rows],
        f"gap to {summary.baseline}": [_gap(row.loss, row, summary) for row in summary.rows],
        **_other_metrics(summary),
        "step time": [_time(row) for row in summary.rows],
        "saved activations": [_bytes(row.saved_activation_bytes, row.saved_ratio) for row in summary.rows],
        "peak memory": [_bytes(row.peak_bytes, row.peak_ratio) for row in summary.rows],
        "skipped": [f"{row.skipped_steps} of {row.steps}" if row.skipped_steps else "" for row in summary.rows],
        "GEMM FLOPs": [_flops(row) for row in summary.rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cell not in ("", NOTHING) for cell in cells)}
    return Table(
        headers=("recipe", *shown),
        rows=tuple(
            (row.recipe, *(cells[i] or NOTHING for cells in shown.values())) for i, row in enumerate(summary.rows)
        ),
        notes=tuple(_notes(summary)),
    )


def metrics_table(summary: Summary) -> Table | None:
    """Every metric and slice beside the loss, the worst first: values with their gaps; ``None`` where there is none."""
    shown = set(_metric_names(summary)) - {"loss"}
    names = [name for name in worst_metrics(summary) if name in shown]
    if not names:
        return None
    rows = tuple((name, *(_value_and_gap(row, name, summary) for row in summary.rows)) for name in names)
    return Table(headers=("metric", *(row.recipe for row in summary.rows)), rows=rows)


def seeds_table(summary: Summary) -> Table:
    """Every run on its own: how it ended, its loss, its gap."""
    rows: list[tuple[str, ...]] = []
    for row in summary.rows:
        for run in row.runs:
            gap = row.loss.gap.per_seed.get(run.seed) if row.loss else None
            rows.append(
                (
                    row.recipe,
                    str(run.seed),
                    f"{run.steps} of {summary.steps}",
                    *(
                        number(metric.per_seed.get(run.seed)) if metric else NOTHING
                        for metric in (row.loss, row.fp32_loss)
                    ),
                    NOTHING if row.recipe == summary.baseline or gap is None else difference(gap),
                    str(run.skipped),
                    run.status + (f": {run.reason}" if run.reason else ""),
                )
            )
    headers = (
        "recipe",
        "seed",
        "steps",
        "loss",
        "loss in fp32",
        f"gap to {summary.baseline}",
        "skipped",
        "ended",
    )
    return Table(headers=headers, rows=tuple(rows))


def _metric_names(summary: Summary) -> list[str]:
    return list(dict.fromkeys(name for row in summary.rows for name in row.metrics))


def _other_metrics(summary: Summary) -> Mapping[str, list[str]]:
    """Columns for metrics beside the loss; slices have a table of their own."""
    names = [name for name in _metric_names(summary) if name != "loss" and "/" not in name]
    return {name: [_value(row.metrics.get(name)) for row in summary.rows] for name in names}


def _value(metric: Metric | None) -> str:
    return NOTHING if metric is None else number(metric.mean)


def _value_and_gap(row: RecipeSummary, name: str, summary: Summary) -> str:
    gap = _gap(row.metrics.get(name), row, summary)
    return _value(row.metrics.get(name)) + (f" ({gap})" if gap not in ("", NOTHING) else "")


def _gap(metric: Metric | None, row: RecipeSummary, summary: Summary) -> str:
    if metric is None or row.recipe == summary.baseline or metric.gap.mean is None:
        return ""
    if metric.gap.identical:
        return "identical"
    mean, sd = difference(metric.gap.mean, metric.gap.sd), metric.gap.sd
    return mean if sd is None else f"{mean} ± {spread(sd)}"


def _status(row: RecipeSummary) -> str:
    if row.status == "done":
        return ""
    parts: dict[str, int] = {}
    for run in row.runs:
        parts[run.status] = parts.get(run.status, 0) + 1
    if len(parts) == 1:
        return row.status
    return ", ".join(f"{n} of {len(row.runs)} {status}" for status, n in parts.items() if status != "done")


def _time(row: RecipeSummary) -> str:
    if row.time_ratio is None:
        return ""
    share = row.engines.get("emulated", 0.0)
    label = f" ({'' if share > 0.995 else f'{percent(share)} '}emulated)" if row.emulated else ""
    return times(row.time_ratio) + label


def _bytes(number_of: int | None, ratio: float | None) -> str:
    return "" if number_of is None else size(number_of) + ("" if ratio is None else f" · {times(ratio)}")


def _flops(row: RecipeSummary) -> str:
    shares = ", ".join(f"{name} {percent(share)}" for name, share in row.flop_shares.items())
    return shares + (f"; {count(len(row.uncovered), 'GEMM')} not covered" if row.uncovered else "")


def _notes(summary: Summary) -> list[str]:
    notes = list(summary.afterwards)
    if summary.plan is not None and len(summary.seeds) < summary.plan.max_pairs and has_no_baseline(summary):
        most = summary.plan.max_pairs
        notes.append(
            f"stopped after {count(len(summary.seeds), 'seed')} of at most {most}: {summary.baseline} "
            "failed or diverged in each, so no gap could be paired"
        )
    others = [row for row in summary.rows if row.recipe != summary.baseline and row.loss is not None]
    paired = [row for row in others if row.loss is not None and row.loss.gap.sd is not None]
    if paired:
        over = _over_seeds({row.recipe: row.loss.gap.seeds for row in paired if row.loss is not None})
        notes.append(f"gap: mean ± standard deviation of the loss difference, paired over {over}")
    notes += unequal_seeds(summary)
    unresolved: dict[int, list[str]] = {}
    for row in others:
        if row.loss and row.loss.gap.seeds and not (row.loss.gap.identical or is_gap_resolved(row, "loss", summary)):
            unresolved.setdefault(row.loss.gap.seeds, []).append(row.recipe)
    notes += [f"not resolved at {count(n, 'seed')}: the gap of {', '.join(names)}" for n, names in unresolved.items()]
    notes += _early(summary)
    notes += _times_told(summary)
    for note in (EMULATED_NOTE, EMULATED):
        emulated = [row.recipe for row in summary.rows if emulation_note(row) == note]
        notes += [f"{note} ({', '.join(emulated)})"] if emulated else []
    return notes


def unequal_seeds(summary: Summary) -> list[str]:
    """Over how many seeds each loss is a mean, where they differ."""
    over = {row.recipe: len(row.loss.per_seed) for row in summary.rows if row.loss is not None}
    if len(set(over.values())) < 2:
        return []
    return [f"loss: mean over {_over_seeds(over)}; a gap is of the pairs alone, not the difference of two such means"]


def _over_seeds(seeds: Mapping[str, int]) -> str:
    """How many seeds; by recipe where they differ."""
    names: dict[int, list[str]] = {}
    for name, n in seeds.items():
        names.setdefault(n, []).append(name)
    told = {n: count(n, "seed") for n in names}
    return ", ".join(told[n] if len(names) == 1 else f"{told[n]} ({', '.join(own)})" for n, own in names.items())


def _times_told(summary: Summary) -> list[str]:
    """What a time ratio is of, and why there is none."""
    beside = [row.recipe for row in summary.rows if row.beside]
    notes = [f"step time: runs that others ran beside (--jobs) are left out ({', '.join(beside)})"] if beside else []
    baseline = summary.row(summary.baseline)
    if baseline and baseline.step_seconds is not None:
        return [*notes, f"step time: 1.00× is {duration(baseline.step_seconds)} ({summary.baseline}, median)"]
    if notes or not any(row.steps for row in summary.rows):
        return notes
    if any(row.step_seconds is not None for row in summary.rows):
        return [f"step time: no ratio, for {summary.baseline} has no step time to compare with"]
    if all(run.steps > UNTIMED_STEPS or not run.timed for row in summary.rows for run in row.runs):
        return ["step time: not told by the script that was run"]
    return [f"step time: not told, for the first {UNTIMED_STEPS} steps of a run are not timed"]


def emulation_note(row: RecipeSummary) -> str:
    """What must be said of a recipe that was emulated here; empty where it was not."""
    if not row.emulated:
        return ""
    return EMULATED if row.time_ratio is None else EMULATED_NOTE


def _early(summary: Summary) -> list[str]:
    """Which recipes' metrics are not of the last step."""
    recipes_at: dict[int, list[str]] = {}
    for row in summary.rows:
        if row.evaluated_at is not None and row.evaluated_at < summary.steps:
            recipes_at.setdefault(row.evaluated_at, []).append(row.recipe)
    return [
        f"after {step} of {summary.steps} steps: the loss of {', '.join(recipes)}"
        for step, recipes in recipes_at.items()
    ]
