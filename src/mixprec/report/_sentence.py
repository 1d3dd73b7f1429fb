"""One sentence for each recipe: what it costs in quality, and what it gains, with how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

from mixprec.records import Gap, RecipeSummary, Summary, count, is_gap_resolved, times

from ._figures import loss, two_digits
from .estimates import HardwareEstimate


def sentence(row: RecipeSummary, summary: Summary, estimates: Sequence[HardwareEstimate] = ()) -> str:
    """A recipe's result, to stand after its name.

    Example:
        >>> from mixprec.records import EvaluationRecord, summarize
        >>> summary = summarize(
        ...     EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss + 0.1 * seed})
        ...     for seed in (0, 1, 2)
        ...     for name, loss in (("fp32", 2.0), ("bf16", 2.002 + 0.01 * (seed - 1)))
        ... )
        >>> [sentence(row, summary) for row in summary.rows]
        ['baseline: loss 2.1000 over 3 seeds.', 'no gap in loss resolved at ±0.025 with 3 pairs.']
    """
    parts = [_quality(row, summary)]
    if row.recipe != summary.baseline:
        parts += [f"activations {times(row.saved_ratio)}"] if row.saved_ratio is not None else []
        parts += [_time(row)] if row.time_ratio is not None else []
        parts += [told for one in estimates if (told := one.sentence(row.recipe, summary.baseline))]
    return "; ".join(part for part in parts if part) + "."


def _quality(row: RecipeSummary, summary: Summary) -> str:
    ended_ill = _ended_ill(row)
    if row.loss is None or row.loss.mean is None:
        return ended_ill or ("stopped before its first evaluation" if row.steps else "has not run")
    if row.recipe == summary.baseline:
        told = f"baseline: loss {loss(row.loss.mean)} over {count(len(row.loss.per_seed), 'seed')}"
    else:
        told = gap_words(row.loss.gap, summary.baseline, keeps=is_gap_resolved(row, "loss", summary))
    return f"{ended_ill}; of the others, {told}" if ended_ill else told


def _ended_ill(row: RecipeSummary) -> str:
    parts: list[str] = []
    for status in ("failed", "diverged"):
        n = sum(run.status == status for run in row.runs)
        parts += [f"{status} in {n} of {count(len(row.runs), 'run')}"] if n else []
    return ", ".join(parts)


def gap_words(gap: Gap, baseline: str, *, keeps: bool = False) -> str:
    """What the pairs tell of a loss; ``keeps``: it is resolved against its target.

    Example:
        >>> gap_words(Gap(per_seed={0: 0.010, 1: 0.012, 2: 0.011}), "fp32")
        "loss 0.011 above fp32's, ±0.0025 with 3 pairs"
        >>> gap_words(Gap(per_seed={0: 0.0, 1: 0.0}), "fp32"), gap_words(Gap(per_seed={0: -0.01}), "fp32")
        ("loss identical to fp32's in 2 pairs", 'a gap in loss of −0.01 with 1 pair, which can resolve none')
    """
    pairs = count(gap.seeds, "pair")
    if gap.mean is None:
        return f"no run of {baseline} to pair it with"
    if gap.identical:
        return f"loss identical to {baseline}'s in {pairs}"
    if gap.interval is None:
        few = ", which can resolve none" if gap.sd is None else ""
        return f"a gap in loss of {two_digits(gap.mean)} with {pairs}{few}"
    reach = two_digits((gap.interval[1] - gap.interval[0]) / 2)
    if not gap.resolved:
        if keeps:
            return f"gap in loss {two_digits(gap.mean)}, ±{reach} with {pairs}: the target is kept"
        return f"no gap in loss resolved at ±{reach} with {pairs}"
    side = "above" if gap.mean > 0 else "below"
    return f"loss {two_digits(abs(gap.mean))} {side} {baseline}'s, ±{reach} with {pairs}"


def _time(row: RecipeSummary) -> str:
    return f"step {times(row.time_ratio)} here{' (emulated)' if row.emulated else ''}"
