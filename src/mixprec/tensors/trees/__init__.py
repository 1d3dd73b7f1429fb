"""State as a tree of plain values and tensors: JSON and safetensors, back exactly; nothing of it can run code."""

from ._tensor_file import read_tensor_file, tensor_file_chunks
from ._tree import PackedState, pack_state, unpack_state

__all__ = ["PackedState", "pack_state", "read_tensor_file", "tensor_file_chunks", "unpack_state"]
