"""State on disk: trees of plain values and tensors, written whole or not at all, verified when read."""

from ._durable_file import replace_file
from ._facts import changed_facts, machine_facts
from ._folder import find_checkpoints
from ._manifest import Manifest
from ._read import Checkpoint, CheckpointDamaged, read_checkpoint
from ._tree import PackedState, pack_state, unpack_state
from ._write import CheckpointNotWritten, write_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointNotWritten",
    "Manifest",
    "PackedState",
    "changed_facts",
    "find_checkpoints",
    "machine_facts",
    "pack_state",
    "read_checkpoint",
    "replace_file",
    "unpack_state",
    "write_checkpoint",
]
