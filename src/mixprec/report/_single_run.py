"""What a session's folder says of its one run, in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mixprec.records import SKIPS, ComparisonRecord, RecipeRecords, Record, Summary, count, incidents_text

from ._figures import magnitude

#: Steps whose mean is told as the last loss.
_LAST = 20


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """The recipe, what stands under the title, and how it went."""

    recipe: str
    subtitle: str
    text: str


def single_run(records: Iterable[Record], recipes: Mapping[str, RecipeRecords], summary: Summary) -> SingleRun | None:
    """Tell of a folder's one run; ``None`` for a comparison, and for a folder of several runs."""
    if len(recipes) != 1 or any(isinstance(record, ComparisonRecord) for record in records):
        return None
    ((recipe, own),) = recipes.items()
    if len(own.steps) != 1:
        return None
    (steps,) = own.steps.values()
    row = summary.rows[0]
    losses = [record.loss for _, record in sorted(steps.items()) if record.loss is not None][-_LAST:]
    # A skipped step shares its number with the one that was then applied, so it is counted among the events.
    skipped = sum(event.name in SKIPS for event in own.events) or row.skipped_steps
    loss = magnitude(sum(losses) / len(losses)) if losses else ""
    last = f", with a training loss of {loss} over its last {len(losses)} steps" if losses else ""
    told = [f"is at step {len(steps)}{last}"] if steps else []
    told.append(
        f"{count(skipped, 'step')} {'was' if skipped == 1 else 'were'} skipped" if skipped else "no step was skipped"
    )
    severities = Counter(finding.severity for finding in own.findings)
    found = [count(severities[kind], kind) for kind in ("fault", "warning", "note") if severities[kind]]
    told += [f"found: {', '.join(found)}"] if found else []
    told += [incidents] if (incidents := incidents_text(own.incidents.values())) else []
    text = f"{'; '.join(told)}."
    if row.step_seconds:
        text += f" It takes {_time(row.step_seconds)} a step."
    return SingleRun(recipe=recipe, subtitle=f"{recipe}, {count(len(steps), 'step')}", text=text)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
