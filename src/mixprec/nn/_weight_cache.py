"""Quantized weights between two updates: cast once, kept as codes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Codes:
    """What ``kernels.quantize`` gave of a matrix."""

    codes: Tensor
    scales: Tensor
    outer: Tensor


@dataclass
class _Entry:
    key: tuple[int, int, int]
    codes: Codes | None = None


class WeightCache:
    """Codes of weights by operand; each is good for one (storage, version, step).

    The first cast of a weight after an update keeps nothing: most loops use it once. From the second on (another
    micro-batch, or a frozen weight in the next step) the codes are there. A write through ``.data`` changes no version
    and is not seen; nor does a fused optimizer of torch change one (2.13), so that a trained weight is only kept where a
    session counts the steps.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def key(self, weight: Tensor, step: int | None) -> tuple[int, int, int] | None:
        """What the codes of a weight are good for; ``None`` where that cannot be told. A frozen weight knows no step.

        Args:
            weight: a parameter.
            step: how often the weights have been updated; ``None``: nobody counts.
        """
        if torch.compiler.is_compiling() or weight.is_inference() or weight.device.type == "meta":
            return None
        if not weight.requires_grad:
            return weight.data_ptr(), weight._version, -1
        return None if step is None else (weight.data_ptr(), weight._version, step)

    def find(self, operand: str, key: tuple[int, int, int]) -> Codes | None:
        """The codes of ``operand`` under ``key``, if they were kept."""
        entry = self._entries.get(operand)
        return entry.codes if entry is not None and entry.key == key else None

    def is_second_use(self, operand: str, key: tuple[int, int, int]) -> bool:
        """Note a cast of ``operand`` under ``key``; whether it is not the first."""
        entry = self._entries.get(operand)
        if entry is not None and entry.key == key:
            return True
        self._entries[operand] = _Entry(key)
        return False

    def keep(self, operand: str, key: tuple[int, int, int], codes: Codes) -> None:
        """Keep the codes of ``operand``."""
        self._entries[operand] = _Entry(key, codes)

    def clear(self) -> None:
        """Forget all codes."""
        self._entries.clear()
