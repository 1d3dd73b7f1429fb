"""Quantized weights between two updates: cast once, kept as codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from ..kernels import has_no_values
from ._parameter_views import parameter_of


@dataclass(frozen=True)
class Codes:
    """What ``kernels.quantize`` gave of a matrix, or of several with ``shape`` [B, R, C] that were stacked."""

    codes: Tensor
    scales: Tensor
    outer: Tensor | None
    shape: tuple[int, int, int] | None = None


@dataclass
class _Entry:
    state: tuple[int, int, int]
    codes: Codes | None = None


class WeightCache:
    """Codes of weights by parameter, view and operand; each is good for one (storage, version, step).

    The first cast of a weight after an update keeps nothing: most loops use it once. From the second on (another
    micro-batch, or a frozen weight in the next step) the codes are there. A write through ``.data`` changes no version
    and is not seen; nor does a fused optimizer of torch change one (2.13), so that a trained weight is only kept where
    a session counts the steps. What is computed anew in every pass (a weight norm, a mask) is never kept: its memory
    may have held other values.
    """

    def __init__(self) -> None:
        self._entries: Any = WeakIdKeyDictionary()
        self._has_trained = False  # codes of weights that steps change

    def codes(self, weight: Tensor, operand: str, step: int | None, make: Callable[[], Codes]) -> Codes | None:
        """The codes of a weight's operand, made and kept from its second use on; ``None`` where they are not kept.

        Args:
            weight: a parameter, or a view of one.
            operand: what tells this cast from others of the weight.
            step: how often the weights have been updated; ``None``: nobody counts. A frozen weight knows no step.
            make: gives the codes.
        """
        if torch.compiler.is_compiling() or weight.is_inference() or has_no_values(weight):
            return None
        parameter = parameter_of(weight)
        if parameter is None or (parameter.requires_grad and step is None):
            return None
        counted = step if parameter.requires_grad and step is not None else -1
        now = (weight.data_ptr(), weight._version, counted)
        entries: dict[Any, _Entry] = self._entries.setdefault(parameter, {})
        key = (operand, weight.storage_offset(), weight.shape, weight.stride())
        entry = entries.get(key)
        if entry is None or entry.state != now:
            entries[key] = _Entry(now)
            return None
        if entry.codes is None:
            entry.codes = make()
            self._has_trained |= parameter.requires_grad
        return entry.codes

    def drop_stale(self) -> None:
        """The weights were updated: forget the codes of those that are trained."""
        if not self._has_trained:
            return
        self._has_trained = False
        for parameter, entries in self._entries.items():
            if parameter.requires_grad:
                entries.clear()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The codes and scales that are kept."""
        entries = [entry for by_operand in self._entries.values() for entry in by_operand.values()]
        kept = [entry.codes for entry in entries if entry.codes is not None]
        return tuple(t for codes in kept for t in (codes.codes, codes.scales, codes.outer) if t is not None)

    def clear(self) -> None:
        """Forget all codes."""
        self._entries.clear()


class NoCodes(WeightCache):
    """Keeps nothing: for what makes no casts, or serves one call."""

    def __init__(self) -> None: ...

    def drop_stale(self) -> None:
        """Nothing."""

    def codes(self, weight: Tensor, operand: str, step: int | None, make: Callable[[], Codes]) -> None:
        """Nothing."""
