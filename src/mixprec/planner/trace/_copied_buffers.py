"""The copies of buffers that a session keeps, so that a skipped step can give them back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Elements up to which a session copies a buffer that nothing changed yet, and up to which it keeps that copy.
_LARGE, _SMALL = 2**20, 2**12


class CopiedBuffers:
    """Copies what ``Session`` copies: running statistics in every step, others until nothing is seen to change them.

    Args:
        model: whose buffers these are.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model, self._copies = model, dict[str, Tensor]()
        self._versions: dict[str, int] = {}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The copies that are there."""
        return tuple(self._copies.values())

    @torch.no_grad()
    def take(self) -> None:
        """The forward pass of a step begins."""
        is_first = not self._versions
        for name, buffer, is_statistic in self._buffers():
            changed = not is_first and buffer._version != self._versions.get(name)
            if is_statistic or changed or (is_first and buffer.numel() <= _LARGE):
                self._copies.setdefault(name, buffer.clone())
            self._versions[name] = buffer._version

    def forget(self) -> None:
        """The step was applied: larger copies of what it did not change go."""
        for name, buffer, is_statistic in self._buffers():
            is_constant = buffer._version == self._versions.get(name) and not is_statistic
            if is_constant and buffer.numel() > _SMALL:
                self._copies.pop(name, None)

    def _buffers(self) -> list[tuple[str, Tensor, bool]]:
        found: list[tuple[str, Tensor, bool]] = []
        for path, module in self._model.named_modules():
            has_statistics = getattr(module, "running_mean", None) is not None
            for name, buffer in module.named_buffers(recurse=False):
                found.append((f"{path}.{name}", buffer, has_statistics))
        return found
