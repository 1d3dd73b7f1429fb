"""Seeds added until each recipe's gap is resolved, or the budget is used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace

from mixprec.records import (
    ComparisonRecord,
    RecipeSummary,
    Record,
    Summary,
    has_no_baseline,
    judge,
    looks,
    summarize,
)

#: Trains these recipes under these seeds, and yields what is measured.
Train = Callable[[Sequence[str], Sequence[int]], Generator[Record]]


def run_until_resolved(
    train: Train,
    header: ComparisonRecord,
    recipes: Sequence[str],
    seeds: Sequence[int],
    known: Iterable[Record] = (),
) -> Generator[Record]:
    """Run look by look. A recipe whose gaps are resolved is left out of the next seeds; the baseline is in all.

    Resolved is: against each target of quality; without any, the loss's gap against 0. Where all of the baseline's runs
    failed or diverged, no seed is added: no gap could be paired.

    Args:
        train: trains what it is told; what has ended already it leaves out.
        header: of the comparison; it may hold more recipes than are run now.
        recipes: that are run, the baseline among them.
        seeds: as many as the budget.
        known: of an earlier part of the same comparison.

    Yields:
        What ``train`` yields; before each look but the first the comparison with the seeds that were added.
    """
    records = [record for record in known if not isinstance(record, ComparisonRecord)]
    left = tuple(name for name in recipes if name != header.baseline)
    done = 0
    for pairs in looks(len(seeds)):
        header = replace(header, seeds=tuple(seeds[:pairs]))
        if done:
            yield header
        with closing(train((header.baseline, *left), seeds[done:pairs])) as measured:
            for record in measured:
                if not isinstance(record, ComparisonRecord):
                    records.append(record)
                yield record
        done = pairs
        # A comparison that goes on may have later seeds; each look sees what it would have seen at first.
        seen = [record for record in records if record.seed in header.seeds]
        summary = summarize([header, *seen])
        left = tuple(name for name in left if not is_settled(summary, name))
        if not left or has_no_baseline(summary):
            return


def is_settled(summary: Summary, recipe: str) -> bool:
    """Whether more pairs would change nothing that was asked of a recipe.

    Example:
        >>> is_settled(summarize([]), "bf16")
        False
    """
    row = summary.row(recipe)
    if row is None:
        return False
    own = [v for v in judge(summary) if v.recipe == recipe and v.target.startswith("quality.")]
    resolved = all(verdict.outcome != "not resolved" for verdict in own) if own else _resolved(row)
    return resolved or all(run.status in ("failed", "diverged") for run in row.runs)


def _resolved(row: RecipeSummary) -> bool:
    return row.loss is not None and (row.loss.gap.resolved or row.loss.gap.identical)
