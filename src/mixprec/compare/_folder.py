"""The run folder of a comparison: records, recipes, and what is left to do in it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from mixprec.records import ComparisonRecord, Record, RunEndRecord, RunLock, TargetRow, read_records, write_records
from mixprec.specs import Recipe, load_recipe

from ._metric_goal import targets_toml

T = TypeVar("T")

RECORDS = "records.jsonl"
TARGETS = "targets.toml"
FINISHED = ("done", "diverged")
#: Between the version now and those of earlier runs.
_EARLIER = ", earlier "


class RunFolder:
    """A folder with ``records.jsonl`` and ``recipes/NAME.toml``.

    ``create`` starts one, ``resume`` goes on with one; ``add`` appends a record at once, so that nothing measured
    is lost when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.finished = path, frozenset[tuple[str, int]]()
        self.kept = tuple[Record, ...]()
        self.header: ComparisonRecord | None = None
        path.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(path)  # held as long as the folder is written

    def add(self, record: Record) -> None:
        """Append one record."""
        try:
            write_records(self.path / RECORDS, [record])
        except OSError as error:  # a full disk names no file
            raise OSError(error.errno, error.strerror, str(self.path / RECORDS)) from error

    @classmethod
    def create(cls, path: Path, header: ComparisonRecord, recipes: Iterable[Recipe]) -> RunFolder:
        """Make the folder and write what it begins with.

        Raises:
            ValueError: if the folder holds anything already, or another process writes it.
            OSError: if it cannot be written; nothing is left behind then.
        """
        refuse_occupied(path)
        is_new = not path.exists()
        try:
            folder = cls(path)
            folder._write_recipes(recipes)
            folder._write_targets(header.targets)
            folder.add(header)
            folder.header = header
        except OSError:
            if is_new:
                shutil.rmtree(path, ignore_errors=True)
            raise
        return folder

    @classmethod
    def resume(cls, path: Path, header: ComparisonRecord, recipes: Iterable[Recipe]) -> RunFolder:
        """Go on with an earlier run: runs that ended are kept, others start again from their first step.

        Raises:
            ValueError: if the earlier run trained something else, or under another recipe of the same name, or another
                process writes the folder.
            OSError: if the folder cannot be read or written.
        """
        recorded(path)  # refuses a folder that is none before anything is written there
        folder = cls(path)
        earlier, recipes = recorded(path), tuple(recipes)
        _check_same(path, earlier, header)
        _check_recipes(path, recorded_recipes(path) if recipes else (), recipes)
        records = list(read_records(path / RECORDS))
        ended = {(r.recipe, r.seed) for r in records if isinstance(r, RunEndRecord) and r.status in FINISHED}
        kept = [r for r in records if not isinstance(r, ComparisonRecord) and (r.recipe, r.seed) in ended]
        merged = dataclasses.replace(
            header,
            recipes=_union(earlier.recipes, header.recipes),
            seeds=_union(earlier.seeds, header.seeds),
            versions=_versions(earlier.versions, header.versions) if kept else header.versions,
            afterwards=_union(earlier.afterwards, _chosen_afterwards(earlier, header) if kept else ()),
        )
        folder.finished, folder.kept, folder.header = frozenset(ended), tuple(kept), merged
        folder._write_recipes(recipes)
        folder._write_targets(merged.targets)
        # Written beside and moved: an interruption here leaves the old records whole.
        rewritten = path / f"{RECORDS}.new"
        rewritten.unlink(missing_ok=True)
        write_records(rewritten, [merged, *kept])
        os.replace(rewritten, path / RECORDS)
        return folder

    def _write_recipes(self, recipes: Iterable[Recipe]) -> None:
        (self.path / "recipes").mkdir(parents=True, exist_ok=True)
        for recipe in recipes:
            recipe_file(self.path, recipe.name).write_text(recipe.to_toml(), encoding="utf-8")

    def _write_targets(self, targets: Sequence[TargetRow]) -> None:
        """What recipes are judged by, as `--targets` reads it."""
        if targets:
            (self.path / TARGETS).write_text(targets_toml(targets), encoding="utf-8")


def check_names(names: Iterable[str]) -> None:
    """Refuse names that differ, but not as names of files.

    Raises:
        ValueError: two of them do not.

    Example:
        >>> check_names(["mine", "mine 2"])
    """
    by_file: dict[str, str] = {}
    for name in names:
        other = by_file.setdefault(recipe_file(Path(), name).name.lower(), name)
        if other != name:
            raise ValueError(f"recipes '{other}' and '{name}' would be one file in the run folder: change one's name")


def refuse_occupied(path: Path) -> None:
    """Refuse a place for a new run that is taken: a file, another run's folder, or one that holds anything else.

    Raises:
        ValueError: it is; the message says by what.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"{path} is a file: expected a folder for records and report, which is made if needed")
    if (path / RECORDS).exists():
        raise ValueError(
            f"{path} holds the records of another run: `--resume {path}` continues it, another --out starts anew"
        )
    foreign = sorted(item.name for item in path.iterdir() if not item.name.startswith("."))
    if foreign:
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ValueError(f"{path} is not empty (it holds {shown}): expected a new or empty folder, e.g. {path / 'run'}")


def refuse_busy(path: Path) -> None:
    """Refuse a folder to go on with that another process writes, before anything is tried out.

    Raises:
        ValueError: it does; the message says which. Or the folder holds no comparison.
        OSError: the folder cannot be read or written.
    """
    recorded(path)
    RunLock(path).release()


def recipe_file(path: Path, name: str) -> Path:
    """Where a recipe's TOML is kept; characters that a file name may not have become ``-``.

    Example:
        >>> str(recipe_file(Path("runs/a"), "mxfp8 sr"))
        'runs/a/recipes/mxfp8-sr.toml'
    """
    return path / "recipes" / (re.sub(r"[^\w.+-]", "-", name) + ".toml")


def recorded(path: Path) -> ComparisonRecord:
    """What the folder's run compares.

    Raises:
        ValueError: if the folder holds no comparison.
    """
    if not (path / RECORDS).is_file():
        raise ValueError(f"{path} holds no {RECORDS}: expected the folder of an earlier `mixprec compare`")
    # A plan of pairs tells anew of the comparison where it adds seeds.
    told = [record for record in read_records(path / RECORDS) if isinstance(record, ComparisonRecord)]
    if told:
        return told[-1]
    raise ValueError(f"{path / RECORDS} does not begin with a comparison: it cannot be resumed")


def recorded_recipes(path: Path) -> tuple[Recipe, ...]:
    """The recipes of the folder's run, as they were."""
    return tuple(load_recipe(str(recipe_file(path, name))) for name in recorded(path).recipes)


def _check_same(path: Path, earlier: ComparisonRecord, now: ComparisonRecord) -> None:
    for what, before, after in (
        # A file may be named from another folder; that it is the same is in the data's hashes.
        ("workload", Path(earlier.workload).name, Path(now.workload).name),
        ("steps", earlier.steps, now.steps),
        ("baseline", earlier.baseline, now.baseline),
        ("data", dict(earlier.data), dict(now.data)),
        ("max_pairs", earlier.max_pairs, now.max_pairs),
    ):
        if before != after:
            raise ValueError(f"{path} was run with {what} {before}, now it is {after}: use another --out instead")


def _check_recipes(path: Path, earlier: Iterable[Recipe], now: Iterable[Recipe]) -> None:
    before = {recipe.name: recipe for recipe in earlier}
    changed = [recipe.name for recipe in now if before.get(recipe.name, recipe) != recipe]
    if changed:
        raise ValueError(
            f"recipe '{changed[0]}' in {path} differs from the one that is to be run now: what was trained there under "
            "this name stays; give the changed one another name"
        )


def _chosen_afterwards(earlier: ComparisonRecord, now: ComparisonRecord) -> list[str]:
    """What an interval or a verdict does not know of: choices that may have been made for the sake of what was seen."""
    told: list[str] = []
    added = [seed for seed in now.seeds if seed not in earlier.seeds]
    if added and now.max_pairs is None:  # a plan's intervals know that pairs are added
        told.append(
            f"seeds were added after runs had ended ({', '.join(map(str, added))}): an interval is too narrow where "
            "that was done because of the gap; --max-pairs adds them by a plan"
        )
    if now.targets != earlier.targets:
        told.append("the targets were changed after runs had ended: verdicts are no proof of them")
    return told


def _versions(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Versions now, and beside each those that earlier runs of the folder had."""
    told: dict[str, str] = {}
    for name in _union(now, before):
        known = [now.get(name, "none"), *before.get(name, "none").split(_EARLIER)]
        told[name] = _EARLIER.join(_union(known[:1], known[1:]))
    return told


def _union(first: Iterable[T], second: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*first, *second)))
