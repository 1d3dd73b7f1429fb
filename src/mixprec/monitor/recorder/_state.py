"""The tensors of a dump: random states of its steps, and what the last passes were called with."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...records import FileFacts, read_facts, write_file
from ...tensors.trees import PackedState, pack_state, read_tensor_file, tensor_file_chunks, unpack_state

_STRUCTURE = "state.json"
_SUFFIX = ".safetensors"


@dataclass(frozen=True, kw_only=True)
class DumpState:
    """What a dump's step is replayed from.

    Attributes:
        random: by the position of the step in the dump's ``steps``: the states of the random generators when its
            first forward pass began, as ``random_states`` gives them.
        calls: ``args`` and ``kwargs`` of each of the last passes of the model, oldest first.
    """

    random: Mapping[int, Mapping[str, Any]]
    calls: tuple[Mapping[str, Any], ...]


def write_dump_state(folder: Path, state: DumpState) -> None:
    """Write the tensors of a dump into its folder, and wait until the disk has them.

    Raises:
        OSError: they cannot be written.
        TypeError: a value that cannot be stored.
    """
    parts = {
        "random": {str(position): _compact(states) for position, states in state.random.items()},
        "batch": list(state.calls),
    }
    packed = pack_state(parts)
    files: dict[str, FileFacts] = {}
    for part, tensors in packed.tensors.items():
        files[part + _SUFFIX] = write_file(folder / (part + _SUFFIX), tensor_file_chunks(tensors))
    hashes = {name: facts.sha256 for name, facts in files.items()}
    text = json.dumps({"files": hashes, "structure": packed.structure}, separators=(",", ":"))
    write_file(folder / _STRUCTURE, [text.encode()])


def read_dump_state(folder: str | Path) -> DumpState:
    """Read what a dump's step is replayed from; every byte is compared with what was written.

    Args:
        folder: of the dump, as ``mixprec.records.find_dumps`` gives it.

    Raises:
        ValueError: it is damaged; the message names the file.
        OSError: it cannot be read.
    """
    root = Path(folder)
    try:
        content = json.loads((root / _STRUCTURE).read_bytes())
        hashes, structure = dict(content["files"]), dict(content["structure"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{root / _STRUCTURE} is damaged: {error}") from None
    tensors: dict[str, Any] = {}
    for name, sha256 in hashes.items():
        if read_facts(root / name).sha256 != sha256:
            raise ValueError(f"{root / name} has changed since it was written: its SHA-256 is not {sha256[:16]}...")
        tensors[name.removesuffix(_SUFFIX)] = read_tensor_file(root / name)
    parts = unpack_state(PackedState(structure, tensors))
    states = {int(position): _whole(states) for position, states in parts["random"].items()}
    return DumpState(random=states, calls=tuple(parts["batch"]))


def _compact(states: Mapping[str, Any]) -> dict[str, Any]:
    """Python's 625 numbers as an array: as JSON they would be the larger part of a dump."""
    version, numbers, gauss = states["python"]
    return {**states, "python": (version, np.array(numbers, dtype=np.uint32), gauss)}


def _whole(states: Mapping[str, Any]) -> dict[str, Any]:
    version, numbers, gauss = states["python"]
    state: tuple[Any, ...] = (version, tuple(numbers.tolist()), gauss)
    random.Random().setstate(state)  # refuses what is none
    return {**states, "python": state}
