"""The model's gradients under a loss scale: true ones, but within a step that takes the scale out with the update."""

# A model's parameters are walked in every step: its modules' own tables are ten times faster than its iterator.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from ..optim import KeptWeights, scale_gradients
from ._gradients import divide


class ScaledGradients:
    """Runs backward passes and says by what the gradients that are there are multiplied.

    Attributes:
        scale: 1 but between a ``backward`` that keeps its scale and the next ``unscale``.
        are_untouched: whether the last ``backward`` raised before it added to the gradients that were there.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights]) -> None:
        self._modules, self._kept = list(model.modules()), kept
        self.scale = 1.0
        self.are_untouched = False

    def backward(
        self, loss: Tensor, scale: float, region: AbstractContextManager[None], *, retain_graph: bool, keeps: bool
    ) -> None:
        """Add the gradients of ``loss`` to those that are there.

        Args:
            loss: one number with a graph.
            scale: what it is multiplied by.
            region: to be entered around the backward pass.
            retain_graph: as torch's.
            keeps: whether gradients may be left multiplied by ``scale``, where there were none before.
        """
        before = list(self._with_gradients())
        scale_gradients(before, scale)  # the sum is taken at one scale
        self.scale = scale
        found = [(id(p), id(p.grad), _version(p)) for p in before]
        try:
            with region:
                scaled_loss(loss, scale).backward(retain_graph=retain_graph)  # pyright: ignore[reportUnknownMemberType]
        except BaseException:
            now = [(id(p), id(p.grad), _version(p)) for p in self._with_gradients()]
            self.are_untouched = bool(found) and now == found
            self.unscale()
            raise
        if before or not keeps:
            self.unscale()

    def unscale(self) -> None:
        """Make the gradients that are there true ones."""
        scale, self.scale = self.scale, 1.0
        if scale == 1.0:
            return
        params = list(self._with_gradients())
        if params:
            for kept in self._kept.values():
                kept.begin_backward()  # 16 bits may not hold a true gradient
            divide(params, scale)

    def _with_gradients(self) -> Iterator[Parameter]:
        seen: set[int] = set()  # a tensor's own hash is slow
        for module in self._modules:
            for param in module._parameters.values():
                if param is not None and param.grad is not None and id(param) not in seen:
                    seen.add(id(param))
                    yield param


class SetAside:
    """Gradients that a backward pass is not for: they are given back as they were.

    In place, since some that train in parallel keep references to them.
    """

    def __init__(self, kept: Mapping[str, KeptWeights]) -> None:
        self._before = {
            param: None if param.grad is None else param.grad.clone()
            for weights in kept.values()
            for param in weights.parameters()
        }

    @torch.no_grad()
    def give_back(self) -> None:
        """Undo what was added since."""
        for param, before in self._before.items():
            if before is None or param.grad is None or before.is_sparse:
                param.grad = before
            else:
                param.grad.copy_(before)


def _version(param: Parameter) -> int:
    return -1 if param.grad is None else param.grad._version


def scaled_loss(loss: Tensor, scale: float) -> Tensor:
    """A loss times its scale, in a dtype that holds both."""
    if scale == 1.0:
        return loss
    wide = loss if loss.dtype in (torch.float32, torch.float64) else loss.float()  # 16 bits may not hold the scale
    return wide * scale
