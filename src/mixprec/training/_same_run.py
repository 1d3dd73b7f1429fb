"""Whether what a folder holds is the run that a session would go on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..monitor import RECIPE
from ..records import ComparisonRecord, Record
from ..specs import Recipe


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


def _is_recipe(file: Path, recipe: Recipe) -> bool:
    try:
        return Recipe.from_toml(file.read_text(encoding="utf-8")) == recipe
    except ValueError:
        return False
