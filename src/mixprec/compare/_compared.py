"""What every comparison has: names, seeds, one of the names as the baseline, and perhaps a plan of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mixprec.formats import unknown_name
from mixprec.records import PairPlan, looks

from ._folder import check_names


def checked_baseline(names: Sequence[str], seeds: Sequence[int], baseline: str, plan: PairPlan | None) -> str:
    """The baseline, by default the first name.

    Raises:
        ValueError: without names or seeds, for repeated ones, for names that a folder cannot keep apart, for a baseline
            that is not compared, or for a plan of another number of seeds.
    """
    if not names or not seeds:
        raise ValueError(f"a comparison needs a recipe and a seed, got {len(names)} and {len(seeds)}")
    for kind, values in (("recipe", names), ("seed", seeds)):
        repeated = [str(value) for value, count in Counter(values).items() if count > 1]
        if repeated:
            advice = "give each a name of its own" if kind == "recipe" else "name each once"
            raise ValueError(f"{kind} {', '.join(repeated)} is named more than once: {advice}")
    check_names(names)
    if baseline and baseline not in names:
        raise unknown_name("baseline", baseline, names)
    if plan is not None and plan.max_pairs != len(seeds):
        raise ValueError(f"a plan of at most {plan.max_pairs} pairs got {len(seeds)} seeds: expected one for each pair")
    return baseline or names[0]


def first_seeds(seeds: tuple[int, ...], plan: PairPlan | None) -> tuple[int, ...]:
    """The seeds that are begun with: with a plan those of its first look."""
    return seeds if plan is None else seeds[: looks(plan.max_pairs)[0]]
