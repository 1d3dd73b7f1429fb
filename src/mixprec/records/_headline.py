"""What a recipe costs and saves, in a sentence that claims no more than the seeds can tell."""

from __future__ import annotations

from ._judge import is_gap_resolved, judge_recipe, worst_first
from ._paired import Gap, Metric
from ._power_told import pairs_told, power_told
from ._smoothed_loss import SMOOTHED_LOSS
from ._summary import RecipeSummary, SeedRun, Summary
from ._tables import emulation_note
from ._wording import count, difference, duration, number, percent, size


def headline(row: RecipeSummary, summary: Summary) -> str:
    """A recipe's result in words, to be read after its name.

    A gap counts as resolved where the interval of the paired differences (Student's t; 95 %, or 97.5 % where pairs
    were added until it was resolved) leaves 0 out; otherwise the sentence says so, what would fit the data, and what
    the pairs can resolve. Targets follow, the metric that is worst, where it is worse for sure, and what was chosen
    only once runs had ended.

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> summary = summarize(
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + 0.1 * seed})
        ...     for seed in (0, 1, 2)
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.002 + 0.01 * (seed - 1)))
        ... )
        >>> headline(summary.rows[0], summary)
        'is the baseline: loss 2.1000 over 3 seeds.'
        >>> headline(summary.rows[1], summary).split(". ")
        ['has a loss of 2.1020; its gap to fp32, +0.0020, is not resolved at 3 seeds (−0.0228 to +0.0268 fits)',
        'A gap of 0.033 can be resolved with 3 pairs; 15 pairs would be needed for 0.008.']
    """
    is_baseline = row.recipe == summary.baseline
    sentences = [_quality(row, summary)]
    if is_baseline:
        sentences.append(_baseline_costs(row))
    else:
        sentences += [_power(row, summary), _targets(row, summary), _worst(row, summary), _costs(row, summary.baseline)]
        sentences += [text[:1].upper() + text[1:] for text in summary.afterwards]
    if row.skipped_steps:
        sentences.append(f"{row.skipped_steps} of {row.steps} steps were skipped")
    if row.uncovered:
        sentences.append(f"{count(len(row.uncovered), 'GEMM')} ran outside the recipe")
    sentences.append(emulation_note(row))
    return ". ".join(sentence for sentence in sentences if sentence) + "."


def _quality(row: RecipeSummary, summary: Summary) -> str:
    ended_ill = _ended_ill(row)
    metric = row.loss
    if metric is None or metric.mean is None:
        return ended_ill or ("was stopped before its first evaluation" if row.steps else "has not run")
    text = (
        _baseline(metric)
        if row.recipe == summary.baseline
        else _against(metric, summary, keeps=is_gap_resolved(row, "loss", summary))
    )
    if row.evaluated_at is not None and row.evaluated_at < summary.steps:
        text += f", after {row.evaluated_at} of {summary.steps} steps"
    return f"{ended_ill}; where it did not, it {text}" if ended_ill else text


def _ended_ill(row: RecipeSummary) -> str:
    """How many seeds diverged or failed, with the first reason."""
    for status in ("failed", "diverged"):
        runs = [run for run in row.runs if run.status == status]
        if runs:
            return f"{status} {_of_seeds(len(runs), len(row.runs))}{_reason(runs[0])}"
    return ""


def _of_seeds(n: int, of: int) -> str:
    if n < of:
        return f"in {n} of {of} seeds"
    return "in its one seed" if of == 1 else f"in all {of} seeds"


def _reason(run: SeedRun) -> str:
    return f" ({run.reason.splitlines()[0]})" if run.reason else ""


def _baseline(metric: Metric) -> str:
    return f"is the baseline: loss {number(metric.mean)} over {count(len(metric.per_seed), 'seed')}"


def _against(metric: Metric, summary: Summary, *, keeps: bool) -> str:
    gap, loss, baseline = metric.gap, number(metric.mean), summary.baseline
    if gap.mean is None:
        return f"has a loss of {loss}, with no run of {baseline} to pair it with"
    if gap.identical:
        return f"ends at exactly {baseline}'s loss, {loss}"
    if gap.seeds == 1:
        return f"has a loss of {loss}; its gap to {baseline}, {difference(gap.mean, gap.sd)}, is not resolved at 1 seed"
    if gap.interval is None:
        return f"has a loss of {loss}, and no finite gap to {baseline}"
    return _interval(gap, metric, baseline, keeps=keeps)


def _interval(gap: Gap, metric: Metric, baseline: str, *, keeps: bool) -> str:
    low, high = gap.interval or (0.0, 0.0)
    span, seeds = f"{difference(low, gap.sd)} to {difference(high, gap.sd)}", count(gap.seeds, "seed")
    loss = f"has a loss of {number(metric.mean)}"
    if gap.resolved:
        sure = f"{span}, {100 * gap.confidence:.3g} % over {seeds}"
        return f"{loss}, {_above_or_below(gap, metric)} {baseline}'s ({sure})"
    mean = difference(gap.mean, gap.sd)
    if keeps:
        return f"{loss}; its gap to {baseline}, {mean}, keeps the target at {seeds} ({span} fits)"
    return f"{loss}; its gap to {baseline}, {mean}, is not resolved at {seeds} ({span} fits)"


def _power(row: RecipeSummary, summary: Summary) -> str:
    gap = Gap() if row.loss is None else row.loss.gap
    told = "" if gap.resolved or gap.identical else power_told(gap, pairs_told(summary, row))
    return told[:1].upper() + told[1:]


def _targets(row: RecipeSummary, summary: Summary) -> str:
    """The targets that are missed or not resolved; or that all are met."""
    own = judge_recipe(row, summary)
    if not own:
        return ""
    parts = [
        f"{outcome}: {', '.join(names)}"
        for outcome in ("missed", "not resolved")
        if (names := [verdict.target for verdict in own if verdict.outcome == outcome])
    ]
    return f"Targets {'; '.join(parts)}" if parts else f"{count(len(own), 'target')} met"


def _worst(row: RecipeSummary, summary: Summary) -> str:
    """The worst metric beside the loss, where it is worse for sure."""
    names = [name for name in worst_first(row, summary) if name not in ("loss", SMOOTHED_LOSS)]
    gap = row.quality[names[0]].gap if names else Gap()
    better = summary.direction(names[0]) if names else None
    if not gap.resolved or gap.mean is None or better is None or (gap.mean > 0) == (better == "higher"):
        return ""
    low, high = gap.interval or (0.0, 0.0)
    span = f"{difference(low, gap.sd)} to {difference(high, gap.sd)}"
    return f"Worst of its other metrics is {names[0]}, {difference(gap.mean, gap.sd)} ({span})"


def _above_or_below(gap: Gap, metric: Metric) -> str:
    mean, value = gap.mean or 0.0, metric.mean or 0.0
    reference = value - mean
    share = f" ({100 * abs(mean) / abs(reference):.2g} %)" if reference else ""
    return f"{difference(abs(mean), gap.sd)[1:]}{share} {'above' if mean > 0 else 'below'}"


def _baseline_costs(row: RecipeSummary) -> str:
    parts: list[str] = []
    if row.step_seconds is not None:
        parts.append(f"takes {duration(row.step_seconds)} a step")
    if row.saved_activation_bytes is not None:
        parts.append(f"keeps {size(row.saved_activation_bytes)} of activations for the backward pass")
    return f"It {' and '.join(parts)}" if parts else ""


def _costs(row: RecipeSummary, baseline: str) -> str:
    parts: list[str] = []
    if row.saved_ratio is not None:
        parts.append(f"it keeps {_fewer(row.saved_ratio)} activation bytes for the backward pass")
    if row.time_ratio is not None:
        parts.append(f"a step takes {row.time_ratio:.2f} times {baseline}'s")
    if row.speed_up is not None and not row.emulated:
        sooner = row.speed_up >= 1
        factor = row.speed_up if sooner else 1 / row.speed_up
        parts.append(f"it reaches {baseline}'s final loss {factor:.2f} times {'sooner' if sooner else 'later'}")
    text = ", and ".join(parts)
    return text[:1].upper() + text[1:]


def _fewer(ratio: float) -> str:
    if abs(ratio - 1) < 0.005:
        return "as many"
    return f"{percent(1 - ratio)} fewer" if ratio < 1 else f"{percent(ratio - 1)} more"
