"""A folder of checkpoints: which are there, which is the newest whole one, and the lock that a writer holds."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...records import sync_folder
from ._manifest import Manifest

#: Folders that a kill may leave behind; the next save removes them.
SAVING, REMOVING = ".saving-", ".removing-"
_NAME = re.compile(r"step-(\d{8,})(?:-(\d+))?")
_LOCK = ".lock"


@dataclass(frozen=True)
class Found:
    """A checkpoint's folder.

    Attributes:
        path: of it.
        manifest: ``None`` if that is damaged.
        damage: what is known to be damaged, without reading every byte; empty: nothing.
    """

    path: Path
    manifest: Manifest | None
    damage: str


def find_checkpoints(root: Path) -> list[Found]:
    """The checkpoints in a folder, the one that was saved last first; those whose manifest is damaged at the front.

    The order is that of saving, not of steps: a run that went back to an earlier checkpoint goes on from there.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = [path for path in root.iterdir() if _NAME.fullmatch(path.name)] if root.is_dir() else []
    return sorted(map(look_at, folders), key=_order, reverse=True)


def look_at(path: Path) -> Found:
    """What a checkpoint's manifest and its files' sizes tell."""
    try:
        manifest = Manifest.of(path)
    except ValueError as error:
        return Found(path, None, str(error))
    return Found(path, manifest, "; ".join(manifest.misfits(path, hashed=False)))


def checkpoint_name(root: Path, step: int) -> str:
    """A name that is free: ``step-00000123``, or ``step-00000123-2`` where that step was saved before.

    A checkpoint is never written over, so that no instant is without it.
    """
    name = plain = checkpoint_at(root, step).name
    number = 2
    while (root / name).exists():
        name, number = f"{plain}-{number}", number + 1
    return name


def checkpoint_at(root: Path, step: int) -> Path:
    """Where the first checkpoint of a step is, or would be."""
    return root / f"step-{step:08d}"


def remove_checkpoint(path: Path) -> None:
    """Remove one, if it is there.

    It is renamed first, so that a kill never leaves half a checkpoint under a checkpoint's name.
    """
    gone = path.with_name(f"{REMOVING}{path.name}")
    try:
        os.rename(path, gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone, ignore_errors=True)


def remove_leftovers(root: Path) -> None:
    """Remove what a kill left behind."""
    for path in root.iterdir():
        if path.name.startswith((SAVING, REMOVING)):
            shutil.rmtree(path, ignore_errors=True)


def remove_old(root: Path, keep: int) -> None:
    """Remove all checkpoints that are older than the newest ``keep`` whole ones."""
    whole = 0
    for found in find_checkpoints(root):
        if found.manifest is None:
            continue  # nobody knows how old it is
        if whole >= keep:
            remove_checkpoint(found.path)
        whole += not found.damage
    sync_folder(root)


@contextmanager
def writing(root: Path) -> Generator[None]:
    """Hold a folder's lock, which the system releases however the process ends.

    Raises:
        ValueError: another process holds it.
    """
    handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"save: another process is saving in {root}: give each run a folder of its own, and let one process "
                "of a run save"
            ) from None
        yield
    finally:
        os.close(handle)


def _order(found: Found) -> tuple[bool, int, str]:
    return found.manifest is None, 0 if found.manifest is None else found.manifest.number, found.path.name
