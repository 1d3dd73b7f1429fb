"""Whether what a folder holds is the run that a session would go on with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..records import RESUMED, ComparisonRecord, EventRecord, Record, StepRecord
from ..specs import Recipe

RECORDS, RECIPE = "records.jsonl", "recipe.toml"


def check_same_run(folder: Path, earlier: Sequence[Record], recipe: Recipe, seed: int) -> None:
    """Refuse a folder whose records or recipe are something else's.

    Raises:
        ValueError: it holds a comparison, or a run of another recipe or seed.
    """
    for record in earlier:
        if isinstance(record, ComparisonRecord):
            raise ValueError(f"run folder {folder} holds a comparison: give an empty folder")
        if record.seed != seed:
            raise ValueError(
                f"run folder {folder} holds a run of seed {record.seed}, got seed {seed}: give each seed its own folder"
            )
    file = folder / RECIPE
    if file.exists() and not _is_recipe(file, recipe):
        raise ValueError(f"run folder {folder} holds a run of another recipe ({file}): give an empty folder")


def recorded_steps(records: Iterable[Record]) -> int:
    """How many steps a run's records hold, as far as they were not replaced: one more than the last one's number.

    Example:
        >>> from mixprec.records import EventRecord
        >>> recorded_steps([EventRecord(recipe="a", seed=0, step=3, name="resumed", site="", message="")])
        3
    """
    steps = 0
    for record in records:
        if isinstance(record, StepRecord):
            steps = record.step + 1
        elif isinstance(record, EventRecord) and record.name == RESUMED:
            steps = record.step
    return steps


def _is_recipe(file: Path, recipe: Recipe) -> bool:
    try:
        return Recipe.from_toml(file.read_text(encoding="utf-8")) == recipe
    except ValueError:
        return False
