"""The arguments of the last passes of a model, for a dump to hold them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter

_PLAIN = (str, int, float, complex, bool, bytes, type(None))


class HeldBatches:
    """References to what the model was called with since the last step began; of the last passes, as many as fit.

    Args:
        limit: bytes of tensors up to which they are held; a single pass beyond it is held by nobody.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._passes: deque[tuple[dict[str, Any], int]] = deque()
        self._versions: dict[int, tuple[Tensor, int]] = {}
        self._why = "no forward pass of the model was seen in the last step"

    def clear(self) -> None:
        """A step begins."""
        self._passes.clear()
        self._versions.clear()
        self._why = "no forward pass of the model was seen in the last step"

    def add(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A pass begins."""
        seen: list[Tensor] = []
        try:
            call = {"args": _held(args, seen), "kwargs": _held(dict(kwargs), seen)}
        except TypeError as error:
            self._leave_out(f"the model's arguments hold {error}, which a dump cannot hold")
            return
        size = sum(tensor.numel() * tensor.element_size() for tensor in seen)
        self._passes.append((call, size))
        self._versions.update({id(tensor): (tensor, tensor._version) for tensor in seen})  # pyright: ignore[reportPrivateUsage]
        while self._passes and sum(size for _, size in self._passes) > self._limit:
            _, left = self._passes.popleft()
            if not self._passes:
                self._leave_out(f"it holds {left:,} bytes, more than {self._limit:,} (batch_bytes=)")

    def calls(self) -> tuple[list[dict[str, Any]], str]:
        """What the last passes were called with, oldest first; and, where none can be had, why."""
        if self._passes and any(t._version != version for t, version in self._versions.values()):  # pyright: ignore[reportPrivateUsage]
            return [], "a tensor of it was written to since"
        return [call for call, _ in self._passes], "" if self._passes else self._why

    def _leave_out(self, why: str) -> None:
        self.clear()
        self._why = why


def _held(value: Any, seen: list[Tensor]) -> Any:
    """The same value without its graph; raises ``TypeError`` with the name of a kind that cannot be stored."""
    if type(value) in (Tensor, Parameter):
        if value.layout is not torch.strided or value.is_quantized or value.is_nested or value.is_meta:
            raise TypeError("a tensor without dense values")
        seen.append(value.detach())  # without its graph; counts writes as the value does
        return seen[-1]
    if isinstance(value, Mapping):
        return {str(key): _held(item, seen) for key, item in cast("Mapping[Any, Any]", value).items()}
    if type(value) in (list, tuple):
        return type(value)(_held(item, seen) for item in value)
    if type(value) in _PLAIN:
        return value
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__}")
