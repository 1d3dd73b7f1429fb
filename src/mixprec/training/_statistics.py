"""Running statistics of norm layers: a skipped step leaves them as they were."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase  # pyright: ignore[reportPrivateUsage]  # what all such layers share


class StatisticsKeeper:
    """Copies running statistics before the first training forward pass of a step, and gives them back.

    A forward pass updates them before anyone knows that the step will be skipped, and one inf in an activation
    would stay in them for good. A hook on the model takes the copy; inside a compiled model no copy is taken.

    Example:
        >>> model = nn.BatchNorm1d(2)
        >>> keeper = StatisticsKeeper(model)
        >>> _ = model(torch.full((4, 2), torch.inf))
        >>> keeper.give_back()
        >>> model.running_mean.tolist()
        [0.0, 0.0]
    """

    def __init__(self, model: nn.Module) -> None:
        self._buffers: list[Tensor] = [
            buffer
            for module in model.modules()
            if isinstance(module, _NormBase) and module.track_running_stats
            for buffer in module.buffers(recurse=False)
        ]
        self._kept: list[Tensor] = []
        self._handle = model.register_forward_pre_hook(self) if self._buffers else None

    def __call__(self, module: nn.Module, args: Any) -> None:
        """The hook: copy once for each step, in training mode."""
        if not self._kept and module.training and not torch.compiler.is_compiling():
            self._kept = [buffer.clone() for buffer in self._buffers]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The copies that are there."""
        return tuple(self._kept)

    def forget(self) -> None:
        """The step was applied."""
        self._kept = []

    @torch.no_grad()
    def give_back(self) -> None:
        """The step was skipped."""
        for buffer, kept in zip(self._buffers, self._kept, strict=False):
            buffer.copy_(kept)
        self.forget()

    def remove(self) -> None:
        """Take the hook off the model."""
        if self._handle is not None:
            self._handle.remove()
