"""What a run cannot tell, said beside what it tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mixprec.records import (
    ComparisonRecord,
    RecipeRecords,
    RecipeSummary,
    Summary,
    count,
    pairs_told,
    power_told,
)

from ._folder import RunFolder
from .estimates import HardwareEstimate

#: Parameters below which a model is called small: what is known of low precision's failures is of larger ones.
_SMALL = 1_000_000_000
#: Slowest steps over the median from which the machine is called busy.
_UNEVEN = 1.3


def limits(
    folder: RunFolder,
    summary: Summary,
    recipes: Mapping[str, RecipeRecords],
    estimates: Sequence[HardwareEstimate],
) -> tuple[str, ...]:
    """Sentences for the box "What this run cannot tell", the weightiest first."""
    return (
        *_damage(folder),
        *_versions(folder),
        *_pairs(summary),
        *_missing(summary),
        *_emulated(summary),
        *_uneven(summary),
        *_size(summary),
        *_estimated(estimates),
        *_seen_once(recipes),
    )


def _damage(folder: RunFolder) -> Iterable[str]:
    if folder.left_out:
        first = folder.left_out[0]
        yield (
            f"{count(len(folder.left_out), 'line')} of the records could not be read and "
            f"{'was' if len(folder.left_out) == 1 else 'were'} left out, the first at line {first.line}; "
            "`mixprec doctor` tells each."
        )
    if folder.is_cut_off:
        yield "The records end in half a line: a process was killed, or the disk was full, while it was written."


def _versions(folder: RunFolder) -> Iterable[str]:
    """Versions and machines that changed within the folder."""
    headers = [record for record in folder.records if isinstance(record, ComparisonRecord)]
    for what in ("versions", "machine"):
        found: dict[str, dict[str, None]] = {}
        for header in headers:
            for name, value in getattr(header, what).items():
                found.setdefault(name, {})[str(value)] = None
        mixed = [f"{name} {' and '.join(values)}" for name, values in found.items() if len(values) > 1]
        if mixed:
            kind = "versions" if what == "versions" else "machines"
            yield f"The folder holds runs of mixed {kind} ({'; '.join(mixed)}): a gap may come from that alone."


def _pairs(summary: Summary) -> Iterable[str]:
    """What gap the pairs can resolve, and what more would."""
    compared = [row for row in summary.rows if row.recipe != summary.baseline and row.loss is not None]
    alone = [row.recipe for row in compared if row.loss and row.loss.gap.seeds == 1]
    if alone:
        yield f"With 1 pair no gap in loss can be told from chance ({', '.join(alone)}): at least 3 seeds are needed."
    told = [
        f"{power} (loss of {row.recipe})"
        for row in sorted(compared, key=lambda row: -(_resolvable(row) or 0.0))
        if row.loss is not None and (power := power_told(row.loss.gap, pairs_told(summary, row)))
    ]
    if told:
        more = (
            f"; {count(len(told) - 1, 'other recipe')} can resolve finer ones, as the table of gaps tells"
            if told[1:]
            else ""
        )
        yield f"Smaller gaps stay hidden: {told[0]}{more}."


def _resolvable(row: RecipeSummary) -> float | None:
    return None if row.loss is None or row.loss.gap.identical else row.loss.gap.resolvable()


def _missing(summary: Summary) -> Iterable[str]:
    """Runs without a result, recipes without a metric that others have, and recipes that were evaluated early."""
    ill = {row.recipe: sum(run.status in ("failed", "diverged") for run in row.runs) for row in summary.rows}
    none = [row.recipe for row in summary.rows if row.runs and ill[row.recipe] == len(row.runs)]
    if summary.baseline in none:
        yield f"All runs of the baseline {summary.baseline} failed or diverged: no gap of any recipe can be told."
    others = [name for name in none if name != summary.baseline]
    if others:
        yield f"All runs of {', '.join(others)} failed or diverged: no loss and no gap can be told there."
    lost = {
        row.recipe: n
        for row in summary.rows
        if (n := sum(run.status != "done" for run in row.runs)) and any(run.status == "done" for run in row.runs)
    }
    if lost:
        told = ", ".join(f"{n} of {name}" for name, n in lost.items())
        yield f"Runs that did not end well are in no gap ({told}): the others may be the easier seeds."
    names = dict.fromkeys(name for row in summary.rows for name in row.metrics)
    for name in names:
        without = [row.recipe for row in summary.rows if row.metrics and name not in row.metrics]
        if without:
            yield f"The metric {name} is missing for {', '.join(without)}: no gap of it is told there."
    early = [row.recipe for row in summary.rows if row.evaluated_at is not None and row.evaluated_at < summary.steps]
    if early:
        yield f"Not evaluated at the last of {summary.steps} steps: {', '.join(early)}."


def _emulated(summary: Summary) -> Iterable[str]:
    emulated = [row.recipe for row in summary.rows if row.emulated]
    if emulated:
        yield (
            f"How fast {', '.join(emulated)} would be on hardware that multiplies the format: here it is emulated, and "
            "its step time says nothing of that."
        )


def _uneven(summary: Summary) -> Iterable[str]:
    slowest = {
        row.recipe: row.timing.p95 / row.step_seconds
        for row in summary.rows
        if row.timing is not None and row.timing.p95 is not None and row.step_seconds
    }
    if not slowest:
        return
    worst = max(slowest, key=lambda name: slowest[name])
    ratio = slowest[worst]
    beside = "Times are of this machine, beside whatever else ran on it"
    if ratio >= _UNEVEN:
        yield f"{beside}: one step in twenty took {ratio:.2g} times the median or more ({worst})."
    else:
        yield f"{beside}; nothing was reserved for the run."


def _size(summary: Summary) -> Iterable[str]:
    parameters = max((row.parameters or 0 for row in summary.rows), default=0)
    if 0 < parameters < _SMALL:
        yield (
            f"What a larger model or a longer training would show: this one has {_rounded(parameters)} parameters and "
            f"took {count(summary.steps, 'step')}, and some failures of low precision come late or only at scale."
        )


def _rounded(n: int) -> str:
    """Few digits.

    Example:
        >>> _rounded(88_296), _rounded(3_000_000), _rounded(12)
        ('88 thousand', '3 million', '12')
    """
    for word, scale in (("million", 1_000_000), ("thousand", 1000)):
        if n >= scale:
            return f"{float(f'{n / scale:.2g}'):g} {word}"
    return str(n)


def _estimated(estimates: Sequence[HardwareEstimate]) -> Iterable[str]:
    doubtful = [one.title for one in estimates if not one.is_validated]
    if doubtful:
        yield f"Estimates for {', '.join(doubtful)} were never compared with a measurement there: not validated."


def _seen_once(recipes: Mapping[str, RecipeRecords]) -> Iterable[str]:
    if any(own.memory or own.coverage for own in recipes.values()):
        yield "Memory and formats are those of one early step of each run; a recipe with phases changes them later."
