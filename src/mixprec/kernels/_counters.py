"""Counters of steps: one number of a parameter each, which all parameters of a call advance together."""

# torch marks its multi-tensor functions private; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._optimizer_contract import CountingBackend
from ._registry import optimizer_backend


class Counters:
    """Counters of one element each, read and advanced at once.

    Torch's own way takes microseconds for each of them, more than a small parameter's update.

    Args:
        tensors: one element each; those that are not fp32 on the CPU are counted by torch.

    Example:
        >>> tensors = [torch.tensor(2.0), torch.tensor(2.0)]
        >>> counters = Counters(tensors)
        >>> counters.advance()
        >>> counters.are(3), tensors
        (True, [tensor(3.), tensor(3.)])
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = list(tensors)
        self._known: tuple[list[int], list[torch.dtype]] = ([], [])
        backend = optimizer_backend("cpu")
        self._backend = backend if isinstance(backend, CountingBackend) else None

    def are(self, value: int) -> bool:
        """Whether all of them are ``value``."""
        backend, addresses = self._native()
        if backend is not None:
            return backend.counters_are(addresses, value)
        return all(float(tensor) == value for tensor in self._tensors)

    def advance(self) -> None:
        """Add one to each."""
        backend, addresses = self._native()
        if backend is None:
            torch._foreach_add_(self._tensors, 1)
            return
        backend.advance_counters(addresses)
        torch.autograd.graph.increment_version(self._tensors)

    def _native(self) -> tuple[CountingBackend | None, list[int]]:
        """Where all counters lie now, and the backend, if they are what it takes: anybody may have changed one."""
        tensors = self._tensors
        found = (list(map(Tensor.data_ptr, tensors)), [t.dtype for t in tensors])
        if found != self._known:
            fits = all(t.dtype == torch.float32 and t.is_cpu and t.numel() == 1 for t in tensors)
            if not fits:
                return None, []
            self._known = found
        return self._backend, found[0]
