"""What a recipe costs and saves, in a sentence that claims no more than the seeds can tell."""

from __future__ import annotations

from ._paired import Gap, Metric
from ._summary import RecipeSummary, SeedRun, Summary
from ._tables import emulation_note
from ._wording import count, difference, duration, number, percent, size


def headline(row: RecipeSummary, summary: Summary) -> str:
    """A recipe's result in words, to be read after its name.

    A gap counts as resolved where the 95 % interval of the paired differences (Student's t) leaves 0 out; otherwise
    the sentence says so, and what would fit the data.

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> summary = summarize(
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + 0.1 * seed})
        ...     for seed in (0, 1, 2)
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.002 + 0.01 * (seed - 1)))
        ... )
        >>> headline(summary.rows[0], summary)
        'is the baseline: loss 2.1000 over 3 seeds.'
        >>> headline(summary.rows[1], summary)
        'has a loss of 2.1020; its gap to fp32, +0.0020, is not resolved at 3 seeds (−0.0228 to +0.0268 fits).'
    """
    is_baseline = row.recipe == summary.baseline
    sentences = [_quality(row, summary), _baseline_costs(row) if is_baseline else _costs(row, summary.baseline)]
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
    text = _baseline(metric) if row.recipe == summary.baseline else _against(metric, summary.baseline)
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


def _against(metric: Metric, baseline: str) -> str:
    gap, loss = metric.gap, number(metric.mean)
    if gap.mean is None:
        return f"has a loss of {loss}, with no run of {baseline} to pair it with"
    if gap.identical:
        return f"ends at exactly {baseline}'s loss, {loss}"
    if gap.seeds == 1:
        return f"has a loss of {loss}; its gap to {baseline}, {difference(gap.mean, gap.sd)}, is not resolved at 1 seed"
    if gap.interval is None:
        return f"has a loss of {loss}, and no finite gap to {baseline}"
    return _interval(gap, metric, baseline)


def _interval(gap: Gap, metric: Metric, baseline: str) -> str:
    low, high = gap.interval or (0.0, 0.0)
    span, seeds = f"{difference(low, gap.sd)} to {difference(high, gap.sd)}", count(gap.seeds, "seed")
    loss = f"has a loss of {number(metric.mean)}"
    if gap.resolved:
        return f"{loss}, {_above_or_below(gap, metric)} {baseline}'s ({span}, 95 % over {seeds})"
    mean = difference(gap.mean, gap.sd)
    return f"{loss}; its gap to {baseline}, {mean}, is not resolved at {seeds} ({span} fits)"


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
    text = ", and ".join(parts)
    return text[:1].upper() + text[1:]


def _fewer(ratio: float) -> str:
    if abs(ratio - 1) < 0.005:
        return "as many"
    return f"{percent(1 - ratio)} fewer" if ratio < 1 else f"{percent(ratio - 1)} more"
