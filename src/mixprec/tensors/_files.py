"""A file, an index of shards or a folder, as the tensors that it holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from ._safetensors_file import is_safetensors, safetensors_tensors
from ._stored import StoredTensor
from ._torch_file import is_torch_file, torch_tensors

_HEAD = 64
_LFS_POINTER = b"version https://git-lfs"
_KINDS: tuple[tuple[Callable[[bytes], bool], Callable[[Path], list[StoredTensor]]], ...] = (
    (is_safetensors, safetensors_tensors),
    (is_torch_file, torch_tensors),
)
#: What a folder's weights are looked for under, the first that is there.
_IN_A_FOLDER = ("*.safetensors.index.json", "*.safetensors", "*.bin.index.json", "*.bin", "*.pt", "*.pth")


def stored_tensors(path: Path) -> list[StoredTensor]:
    """The tensors of a safetensors or ``torch.save`` file, of an index of such files, or of a folder with one of them.

    Judged by content, not by suffix. Data is read when a tensor's ``read`` is called.

    Raises:
        ValueError: the file is of no such kind, or is damaged; the folder has none, or several.
        OSError: it cannot be read.
    """
    file = _in_folder(path) if path.is_dir() else path
    return _sharded_tensors(file) if _head(file).lstrip().startswith(b"{") else _tensors_of(file)


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors or ``torch.save`` file, of an index of such files, or of a folder with one.

    Nothing of the file is run. Tensors in nested dictionaries are named by their path, joined by dots.

    Args:
        path: of the file or folder.

    Returns:
        Tensors on the CPU, in the dtypes that they are stored in.

    Raises:
        ValueError: the file is of no such kind, or is damaged.
        OSError: it cannot be read.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     torch.save({"state_dict": {"w": torch.ones(2)}}, file.name)
        ...     load_tensors(file.name)
        {'state_dict.w': tensor([1., 1.])}
    """
    return {entry.name: entry.read() for entry in stored_tensors(Path(path))}


def _tensors_of(path: Path) -> list[StoredTensor]:
    """The tensors of one file, which is no index."""
    head = _head(path)
    for recognises, read in _KINDS:
        if recognises(head):
            return read(path)
    raise ValueError(f"{path} {_unknown(head)}")


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD)


def _unknown(head: bytes) -> str:
    if not head:
        return "is empty"
    if head.startswith(_LFS_POINTER):
        return "is a pointer of Git LFS, not the file itself: `git lfs pull` fetches it"
    return (
        "is neither a safetensors file, nor one that torch.save wrote, nor an index of such files "
        f"(model.safetensors.index.json): it begins with {head[:16]!r}"
    )


def _in_folder(folder: Path) -> Path:
    for pattern in _IN_A_FOLDER:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(path.name for path in found[:8]) + (", ..." if len(found) > 8 else "")
            raise ValueError(f"{folder} holds {len(found)} files {pattern}: give one of them ({names})")
        if found:
            return found[0]
    raise ValueError(f"{folder} holds no file of weights: looked for {', '.join(_IN_A_FOLDER)}")


def _sharded_tensors(path: Path) -> list[StoredTensor]:
    """The tensors of all files that an index names, in the index's order."""
    homes = _weight_map(path)
    found: dict[tuple[str, str], StoredTensor] = {}
    for shard in dict.fromkeys(homes.values()):
        if not (path.parent / shard).is_file():
            raise ValueError(f"{path} names the file {shard}, which is not beside it")
        found |= {(shard, tensor.name): tensor for tensor in _tensors_of(path.parent / shard)}
    lacking = [name for name, shard in homes.items() if (shard, name) not in found]
    if lacking:
        raise ValueError(f"{path} says that {homes[lacking[0]]} holds the tensor {lacking[0]}, and it does not")
    named = [found.pop((shard, name)) for name, shard in homes.items()]
    return named + [replace(tensor, unfit=f"not named by {path.name}") for tensor in found.values()]


def _weight_map(path: Path) -> dict[str, str]:
    try:
        content: object = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    found: object = cast(dict[str, Any], content).get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in cast(dict[str, Any], found).values()):
        raise ValueError(
            f"{path} is no index of shards: expected an object 'weight_map' from each tensor's name to its file, as in "
            "model.safetensors.index.json"
        )
    return cast(dict[str, str], found)
