"""Writing a checkpoint so that a kill at any instant loses nothing that was acknowledged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ...records import FileFacts, make_folders, sync_folder, write_file
from ...tensors.trees import PackedState, pack_state, tensor_file_chunks
from ._facts import machine_facts
from ._folder import SAVING, checkpoint_name, find_checkpoints, remove_leftovers, remove_old, writing
from ._manifest import MANIFEST, Manifest

STRUCTURE = "state.json"


class CheckpointNotWritten(OSError):
    """A checkpoint could not be written; those before it stand, and what is in memory is untouched."""


def write_checkpoint(root: str | Path, step: int, parts: Mapping[str, object], *, keep: int | None = 2) -> Path:
    """Write a state to a new folder ``step-...``; when the call returns, the disk has it whole.

    Everything is written to a folder of another name, every file and folder is waited for, then the folder is renamed,
    then older checkpoints are removed. A kill leaves at most a folder ``.saving-...``, which the next call removes.

    Args:
        root: folder of checkpoints; made if needed.
        step: applied steps.
        parts: as of ``pack_state``; each gets a safetensors file of its name.
        keep: how many whole checkpoints stay, with this one; ``None``: all.

    Returns:
        The checkpoint's folder.

    Raises:
        CheckpointNotWritten: the disk is full, or the like.
        TypeError: a value that cannot be stored.
        ValueError: another process is saving there, or ``keep`` is below 1.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"save: keep is {keep}, expected 1 or more, or None for all")
    root, packed = Path(root), pack_state(parts)
    try:
        make_folders(root)
        with writing(root):
            return _write(root, step, packed, keep)
    except OSError as error:
        raise CheckpointNotWritten(error.errno, _problem(root, step, packed, error), str(root)) from error


def _write(root: Path, step: int, packed: PackedState, keep: int | None) -> Path:
    remove_leftovers(root)
    name = checkpoint_name(root, step)
    number = 1 + max((found.manifest.number for found in find_checkpoints(root) if found.manifest), default=0)
    new = root / f"{SAVING}{name}"
    try:
        new.mkdir()
        files = _write_files(new, packed)
        manifest = Manifest(step=step, number=number, facts=machine_facts(), files=files)
        write_file(new / MANIFEST, [manifest.to_text().encode()])
        sync_folder(new)
        os.rename(new, root / name)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(root)
    if keep is not None:
        remove_old(root, keep)
    return root / name


def _write_files(folder: Path, packed: PackedState) -> dict[str, FileFacts]:
    files = {STRUCTURE: write_file(folder / STRUCTURE, [json.dumps(packed.structure, separators=(",", ":")).encode()])}
    for part, tensors in packed.tensors.items():
        name = f"{part}.safetensors"
        files[name] = write_file(folder / name, tensor_file_chunks(tensors))
    return files


def _problem(root: Path, step: int, packed: PackedState, error: OSError) -> str:
    size = sum(t.numel() * t.element_size() for group in packed.tensors.values() for t in group.values())
    try:
        free = f"{shutil.disk_usage(root).free / 1e6:,.1f} MB are free"
        stands = next((found.path for found in find_checkpoints(root) if not found.damage), None)
    except OSError:
        free, stands = "the folder cannot be read", None
    before = f"the checkpoint before it stands ({stands})" if stands else "there is no checkpoint before it"
    what = f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
    return (
        f"save: the checkpoint of step {step} was not written: {what}; it takes {size / 1e6:,.1f} MB, {free}; "
        f"{before}; the training can go on, and the next save tries again"
    )
