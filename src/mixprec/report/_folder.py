"""What a run folder holds for its report."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mixprec.records import LeftOut, Record, salvage_records

from .estimates import HardwareEstimate, read_estimates

RECORDS = "records.jsonl"


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """What a report reads.

    Attributes:
        name: of the folder.
        path: as it was given.
        records: those that could be read.
        recipes: TOML by the name of its file.
        files: names of files in ``recipes/`` by the recipe that they hold.
        estimates: for other hardware.
        left_out: lines of the records that could not be read.
        is_cut_off: whether the last line was cut off while it was written.
    """

    name: str
    path: Path
    records: tuple[Record, ...]
    recipes: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    estimates: tuple[HardwareEstimate, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    is_cut_off: bool = False


def read_run_folder(path: Path) -> RunFolder:
    """Read a comparison's folder, or a single run's.

    A damaged line is left out and told: a report of what is left serves better than none.

    Raises:
        ValueError: for a folder without records, or with none that can be read, or with damaged estimates.
        OSError: if it cannot be read.
    """
    expected = "expected the run folder of `mixprec compare` or of prepare(..., run=...)"
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {what}: {f'did you mean {path.parent}?' if path.name == RECORDS else expected}")
    if not (path / RECORDS).is_file():
        below = sorted(path.glob(f"*/{RECORDS}"))
        raise ValueError(f"{path} holds no {RECORDS}: {f'did you mean {below[0].parent}?' if below else expected}")
    salvaged = salvage_records(path / RECORDS)
    if not salvaged.records:
        if salvaged.left_out:
            raise ValueError(f"{salvaged.left_out[0].reason}; no line of it can be read")
        raise ValueError(f"{path / RECORDS} holds no complete record: nothing was measured yet")
    found = [*sorted((path / "recipes").glob("*.toml")), *path.glob("recipe.toml")]
    recipes = {file.stem: file.read_text(encoding="utf-8", errors="replace").strip() for file in found}
    return RunFolder(
        name=path.resolve().name,
        path=path,
        records=salvaged.records,
        recipes=recipes,
        files={_recipe_name(text, stem): f"{stem}.toml" for stem, text in recipes.items()},
        estimates=read_estimates(path),
        left_out=salvaged.left_out,
        is_cut_off=salvaged.is_cut_off,
    )


def _recipe_name(text: str, stem: str) -> str:
    """The name in a recipe's TOML; that of its file where the text is damaged or tells none."""
    try:
        return str(tomllib.loads(text).get("name", stem))
    except tomllib.TOMLDecodeError:
        return stem
