"""The folder of one run inside a comparison's folder, and whether a process still works there."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path

RUNS = "runs"
_LOCK = ".process"


def run_place(folder: Path, recipe: str, seed: int) -> Path:
    """Where a run of a recipe under a seed keeps its files; characters that a file name may not have become ``-``.

    Example:
        >>> str(run_place(Path("out"), "größer & <b>", 2))
        'out/runs/größer----b--seed2'
    """
    return folder / RUNS / (re.sub(r"[^\w.+-]", "-", recipe) + f"-seed{seed}")


def refuse_running(folder: Path, runs: Iterable[tuple[str, int]]) -> None:
    """Refuse runs whose process of an earlier, killed comparison still goes on.

    Raises:
        ValueError: one does; the message names its process.
    """
    for recipe, seed in runs:
        place = run_place(folder, recipe, seed)
        handle = _try(place)
        if handle is None:
            pid = (place / _LOCK).read_text(encoding="utf-8").strip()
            raise ValueError(
                f"recipe {recipe}, seed {seed}: its process of an earlier start still goes on"
                f"{f' (process {pid})' if pid else ''}: wait for it, or end it, then resume"
            )
        if handle >= 0:
            os.close(handle)


def _try(place: Path) -> int | None:
    """A handle that holds the lock, ``-1`` where nobody ever ran, ``None`` where another process holds it."""
    try:
        handle = os.open(place / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return -1
    if _lock(handle):
        return handle
    os.close(handle)
    return None


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks tells nothing of who is there
        pass
    return True


def make_place(folder: Path, recipe: str, seed: int) -> Path:
    """Make the folder of a run; what an earlier attempt left is moved aside, to ``NAME.1`` and so on.

    Raises:
        OSError: it cannot be made.
    """
    place = run_place(folder, recipe, seed)
    if place.exists():
        number = 1
        while (aside := place.with_name(f"{place.name}.{number}")).exists():
            number += 1
        place.rename(aside)
    place.mkdir(parents=True)
    return place


def lock_place(place: Path) -> int:
    """A handle for the run's process to inherit.

    The system lets go of it when that process has ended, and all that it started.

    Raises:
        OSError: the folder cannot be written.
    """
    handle = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    _lock(handle)
    return handle


def sign_place(place: Path, pid: int) -> None:
    """Write down which process works there, for those who are refused.

    Raises:
        OSError: the folder cannot be written.
    """
    (place / _LOCK).write_text(f"{pid}\n", encoding="utf-8")


def remove_empty(place: Path) -> None:
    """Remove the folder of a run that has ended and left nothing in it.

    Raises:
        OSError: it cannot be removed.
    """
    if [item.name for item in place.iterdir()] == [_LOCK]:
        (place / _LOCK).unlink()
        place.rmdir()
