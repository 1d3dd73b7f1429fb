"""State on disk: trees of plain values and tensors, written whole or not at all, verified when read."""

from ._facts import changed_facts, machine_facts
from ._folder import checkpoint_at, find_checkpoints, remove_checkpoint
from ._manifest import Manifest
from ._read import Checkpoint, CheckpointDamaged, read_checkpoint
from ._write import CheckpointNotWritten, write_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointNotWritten",
    "Manifest",
    "changed_facts",
    "checkpoint_at",
    "find_checkpoints",
    "machine_facts",
    "read_checkpoint",
    "remove_checkpoint",
    "write_checkpoint",
]
