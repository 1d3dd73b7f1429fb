"""What a run folder holds for its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mixprec.records import Record, read_records

RECORDS = "records.jsonl"


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A run folder's name, its records, and its recipes as TOML by name."""

    name: str
    records: tuple[Record, ...]
    recipes: Mapping[str, str]


def read_run_folder(path: Path) -> RunFolder:
    """Read a comparison's folder, or a single run's.

    Raises:
        ValueError: for a folder without records, or with damaged ones.
        OSError: if it cannot be read.
    """
    expected = "expected the run folder of `mixprec compare` or of prepare(..., run=...)"
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {what}: {f'did you mean {path.parent}?' if path.name == RECORDS else expected}")
    if not (path / RECORDS).is_file():
        below = sorted(path.glob(f"*/{RECORDS}"))
        raise ValueError(f"{path} holds no {RECORDS}: {f'did you mean {below[0].parent}?' if below else expected}")
    try:
        records = tuple(read_records(path / RECORDS))
    except ValueError as error:
        raise ValueError(f"{error}; `mixprec doctor {path}` reads the rest") from None
    if not records:
        raise ValueError(f"{path / RECORDS} holds no complete record: nothing was measured yet")
    files = [*sorted((path / "recipes").glob("*.toml")), *path.glob("recipe.toml")]
    recipes = {file.stem: file.read_text(encoding="utf-8", errors="replace").strip() for file in files}
    return RunFolder(name=path.resolve().name, records=records, recipes=recipes)
