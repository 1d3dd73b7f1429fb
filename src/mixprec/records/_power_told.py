"""In words, what a number of pairs can resolve and how many a smaller gap would need."""

from __future__ import annotations

import math

from ._judge import is_gap_resolved
from ._paired import Gap
from ._summary import RecipeSummary, Summary
from ._wording import count


def pairs_told(summary: Summary, row: RecipeSummary) -> float | None:
    """The gap in loss whose pairs are worth telling: the target's, else a quarter of what can be resolved, rounded.

    ``None`` where the target is met or missed already, so that no more pairs are needed.
    """
    judged = any(target["name"] == "quality.loss" for target in summary.targets)
    if row.loss is None or (judged and is_gap_resolved(row, "loss", summary)):
        return None
    for target in summary.targets:
        if target["name"] == "quality.loss" and target["unit"] == "absolute" and target["limit"] > 0:
            return target["limit"]
    resolvable = row.loss.gap.resolvable()
    return None if not resolvable else float(f"{resolvable / 4:.1g}")


def power_told(gap: Gap, asked: float | None) -> str:
    """What can be resolved with a chance of 80 %, at the spread that was measured; empty where nothing can be told.

    Args:
        gap: of the pairs.
        asked: the gap whose pairs are to be told; ``None``: none.

    Example:
        >>> power_told(Gap(per_seed={0: 0.001, 1: -0.002, 2: 0.0015}), 0.001)
        'a gap of 0.0062 can be resolved with 3 pairs; 31 pairs would be needed for 0.001'
    """
    resolvable = gap.resolvable()
    if resolvable is None or resolvable == 0 or not math.isfinite(resolvable):
        return ""
    text = f"a gap of {resolvable:.2g} can be resolved with {count(gap.seeds, 'pair')}"
    needed = None if asked is None or asked >= resolvable else gap.pairs_needed(asked)
    if needed is None:
        return text
    # Of pairs that were added by a plan no more can be had; a new plan has looks and a last interval of its own.
    would = f"a new plan of {count(needed, 'pair')}" if gap.plan is not None else count(needed, "pair")
    return f"{text}; {would} would be needed for {asked:.2g}"
