"""Memory for operands that live for one product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ._huge_pages import empty_in_large_pages


class Workspace:
    """One fp32 buffer for each slot, as large as the largest use so far; a use ends where the slot's next one begins.

    New memory has to be mapped and cleared by the system before it is written: for the operands of a layer of width 512
    that took as long as rounding them (two cores, Linux). Only a CPU needs this, and only outside compiled code, whose
    memory the compiler plans.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, slot: str, shape: Sequence[int], device: torch.device) -> Tensor | None:
        """An uninitialised fp32 tensor, or ``None`` where new memory does as well."""
        if device.type != "cpu" or torch.compiler.is_compiling():
            return None
        size = math.prod(shape)
        buffer = self._buffers.get(slot)
        if buffer is None or buffer.numel() < size:
            with torch.inference_mode(False):  # else training could not write what an evaluation has made
                buffer = self._buffers[slot] = empty_in_large_pages(size)
        return buffer[:size].view(tuple(shape))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The buffers."""
        return tuple(self._buffers.values())

    def release(self) -> None:
        """Give the memory back."""
        self._buffers.clear()
