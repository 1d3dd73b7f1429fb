"""Whether a folder's training run is the one that is asked for now: then it goes on, else it is refused in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mixprec.records import BegunTraining, ComparisonRecord, StepRecord, read_begun, read_records
from mixprec.specs import Recipe, recipe_differences

from .._folder import RECORDS
from .._workload import Workload
from ._training import Training

#: What the data of a workload from a file says of the file.
_FILE = "workload_sha256"
#: What a start that was killed before its first step may leave behind.
_OF_A_START = frozenset({"recipe.toml", "versions.json"})


def begun_now(training: Training, workload: Workload) -> BegunTraining:
    """What the run begins with now."""
    return BegunTraining(
        workload=training.source.name,
        title=workload.name,
        data=dict(workload.data),
        recipe=training.recipe.to_toml(),
        steps=workload.steps,
        seed=training.seed,
        device=training.device,
    )


def begun_before(folder: Path) -> BegunTraining | None:
    """What the folder's run began with; ``None`` where none has begun.

    Raises:
        ValueError: the folder is a file, or holds something else.
        OSError: it cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder for the run, which is made if needed")
    begun = read_begun(folder)
    if begun is None and folder.exists():
        _refuse_other(folder)
    return begun


def check_same(folder: Path, before: BegunTraining, now: BegunTraining) -> str:
    """Refuse to go on with a run that began with something else.

    A workload's file may have changed (a mended evaluation): whether its model still fits is seen when the checkpoint
    is loaded.

    Returns:
        What has changed and does not end the run, in a sentence; empty where nothing has.

    Raises:
        ValueError: what else has changed.
    """
    for what, earlier, later in (
        # A file may be named from another folder.
        ("workload", Path(before.workload).name, Path(now.workload).name),
        ("--steps", before.steps, now.steps),
        ("--seed", before.seed, now.seed),
        ("data", _apart_from_file(before.data), _apart_from_file(now.data)),
    ):
        if earlier != later:
            raise ValueError(
                f"{folder} was begun with {what} {earlier}, now it is {later}: a run goes on as it was begun; "
                "another --out starts anew"
            )
    if before.recipe != now.recipe:
        raise ValueError(
            f"{folder} was begun with {_recipes_differ(before.recipe, now.recipe)}: a run goes on as it was begun; "
            "another --out starts anew"
        )
    changed = [f"the workload's file {now.workload}"] if before.data.get(_FILE) != now.data.get(_FILE) else []
    changed += [f"the device ({before.device}, now {now.device})"] if before.device != now.device else []
    return f"changed since the run began: {' and '.join(changed)}; what follows may differ by it" if changed else ""


def _recipes_differ(before: str, now: str) -> str:
    earlier, later = Recipe.from_toml(before), Recipe.from_toml(now)
    if earlier.name != later.name:
        return f"recipe '{earlier.name}', now it is '{later.name}'"
    differences = "; ".join(recipe_differences(earlier, later)) or "names or reasons of its rules alone"
    return f"another recipe '{earlier.name}' (what differs, then -> now: {differences})"


def _apart_from_file(data: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in data.items() if name != _FILE}


def _refuse_other(folder: Path) -> None:
    """What a killed start left without a step is nobody's; anything else is somebody's."""
    if (folder / RECORDS).exists():
        if any(isinstance(record, StepRecord | ComparisonRecord) for record in read_records(folder / RECORDS)):
            raise ValueError(
                f"{folder} holds a run that `mixprec train` did not begin: give --out a new or empty folder"
            )
        return
    foreign = sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))
    if not _OF_A_START.issuperset(foreign):
        shown = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ValueError(f"{folder} is not empty (it holds {shown}): give --out a new or empty folder")
