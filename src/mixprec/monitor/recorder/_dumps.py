"""Writing dumps: whole or not at all, and no more of them than were asked for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ...records import DUMP_FILE, DUMPS, RecorderDump, dump_number, find_dumps, make_folders, read_dump, sync_folder
from ...records import write_file as write_file_durably
from ._state import DumpState, write_dump_state

_WRITING, _REMOVING = ".writing-", ".removing-"


def write_dump(run: Path, dump: RecorderDump, state: DumpState, *, keep: int) -> Path:
    """Write a dump to a new folder below ``run``; when the call returns, the disk has it.

    Everything is written to a folder of another name, every file and folder is waited for, then the folder is renamed.

    Args:
        run: the run folder; made if needed.
        dump: what is told.
        state: its tensors.
        keep: how many dumps stay, with this one. The first to go are those of a loss scale that finds its level, then
            those of requests, then the oldest but the first: what went wrong first explains the rest.

    Returns:
        The dump's folder.

    Raises:
        OSError: it cannot be written; those before it stand.
    """
    root = run / DUMPS
    make_folders(root)
    for path in root.iterdir():
        if path.name.startswith((_WRITING, _REMOVING)):
            shutil.rmtree(path, ignore_errors=True)
    number = 1 + max(map(dump_number, find_dumps(run)), default=0)
    name = f"dump-{number:04d}-step-{dump.step:08d}-{dump.reason}"
    new = root / f"{_WRITING}{name}"
    try:
        new.mkdir()
        write_dump_state(new, state)
        write_file_durably(new / DUMP_FILE, [dump.to_text().encode()])
        sync_folder(new)
        os.rename(new, root / name)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(root)
    _remove_old(run, keep)
    return root / name


def _remove_old(run: Path, keep: int) -> None:
    paths = find_dumps(run)
    *others, newest = paths
    first = next((path for path in others if _rank(path) == _OF_A_FAULT), None)
    others.sort(key=lambda path: (path == first, _rank(path), dump_number(path)))
    for path in others[: max(0, len(paths) - keep)]:
        gone = path.with_name(f"{_REMOVING}{path.name}")
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
    sync_folder(newest.parent)


_ORDINARY, _ASKED_FOR, _OF_A_FAULT = range(3)


def _rank(path: Path) -> int:
    try:
        dump = read_dump(path)
    except (OSError, ValueError):
        return _ORDINARY  # nobody can read it
    if dump.is_ordinary:
        return _ORDINARY
    return _ASKED_FOR if dump.reason == "request" else _OF_A_FAULT
