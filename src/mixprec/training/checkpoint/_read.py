"""Reading a checkpoint: nothing is believed that is not verified."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...tensors.trees import PackedState, read_tensor_file, unpack_state
from ._folder import find_checkpoints
from ._manifest import MANIFEST, Manifest
from ._write import STRUCTURE

_SUFFIX = ".safetensors"


class CheckpointDamaged(ValueError):
    """No whole checkpoint is where one was looked for; the message names each file with what was got and expected."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that was read.

    Attributes:
        path: its folder.
        manifest: what it says of itself.
        parts: the state; tensors are on the CPU.
        damaged: newer checkpoints that were passed over, and why.
    """

    path: Path
    manifest: Manifest
    parts: dict[str, Any]
    damaged: tuple[str, ...] = ()


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint, or the newest whole one of a folder of checkpoints.

    Every byte is compared with what was written. In a folder of checkpoints a damaged one is passed over, and told in
    ``damaged``.

    Args:
        path: a checkpoint's folder, ``.../step-00000123``, or the folder of all of them.

    Raises:
        FileNotFoundError: there is none.
        CheckpointDamaged: none is whole.
    """
    folder = Path(path)
    if (folder / MANIFEST).exists() or folder.name.startswith("step-"):
        return _read(folder)
    damaged: list[str] = []
    for found in find_checkpoints(folder):
        try:
            checkpoint = _read(found.path)
        except CheckpointDamaged as error:
            damaged.append(str(error))
            continue
        return Checkpoint(
            path=checkpoint.path, manifest=checkpoint.manifest, parts=checkpoint.parts, damaged=tuple(damaged)
        )
    if damaged:
        raise CheckpointDamaged("no checkpoint in {} is whole: {}".format(folder, "; ".join(damaged)))
    below = folder / "checkpoints"
    advice = f"give {below}" if below.is_dir() else "give the folder that session.save() wrote to, or a step-... in it"
    raise FileNotFoundError(f"resume: {folder} holds no checkpoint: {advice}")


def _read(folder: Path) -> Checkpoint:
    if not folder.is_dir():
        raise FileNotFoundError(f"resume: there is no checkpoint {folder}")
    try:
        manifest = Manifest.of(folder)
        misfits = manifest.misfits(folder)
    except ValueError as error:
        misfits, manifest = [str(error)], None
    if misfits or manifest is None:
        raise CheckpointDamaged(f"{folder} is damaged: {', '.join(misfits)}")
    structure = json.loads((folder / STRUCTURE).read_text(encoding="utf-8"))
    names = [name for name in manifest.files if name.endswith(_SUFFIX)]
    tensors = {name.removesuffix(_SUFFIX): read_tensor_file(folder / name) for name in names}
    return Checkpoint(path=folder, manifest=manifest, parts=unpack_state(PackedState(structure, tensors)))
