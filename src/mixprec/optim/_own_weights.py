"""Weights of an optimizer of this package, which keeps them itself."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from ..kernels import load_weight
from ..specs import Moments, Weights
from ._kept_weights import KeptWeights
from ._kernel_optimizer import Group, KernelOptimizer, parameters_of
from ._layout import moments_of
from ._stored import EXTRA_NAMES, extra_of, load_nearest
from ._wide_gradients import HALF_DTYPES


class OwnWeights(KeptWeights):
    """Weights whose groups hold the model's own parameters, and whose extras lie in the optimizer's state.

    Draws come from each parameter's own step counter, which the optimizer's state holds, not from ``applied``.
    """

    def __init__(self, optimizer: KernelOptimizer, kind: Weights, moments: Moments, seed: int) -> None:
        super().__init__(optimizer, seed)
        self._own = optimizer
        optimizer.keep(kind, moments, seed)
        self._keep_new()

    def parameters(self) -> list[Parameter]:
        return [param for group in self._own.param_groups for param in group["params"]]

    def begin_backward(self) -> None:
        self._keep_new()
        super().begin_backward()

    def apply(self, factor: float) -> None:
        self._own.step(factor=factor)
        self.applied += 1

    def make_state(self) -> None:
        for param, group in parameters_of(self._own):
            if param.grad is not None:
                self._own.make_state(param, group)

    def adopt_writes(self) -> list[Parameter]:
        return self._own.adopt_writes()

    def full_weight(self, param: Parameter) -> Tensor:
        return load_weight(self._own.stored_weight(param, self._group(param)))

    def load_full_weight(self, param: Parameter, value: Tensor) -> None:
        stored = self._own.stored_weight(param, self._group(param))
        load_nearest(stored, value.detach().to(param.device, torch.float32).contiguous())

    def extras(self) -> dict[Parameter, dict[str, Tensor]]:
        kept = {p: {k: v for k, v in self._own.state[p].items() if k in EXTRA_NAMES} for p in self.parameters()}
        return {param: extras for param, extras in kept.items() if extras}

    def load_extras(self, param: Parameter, extras: Mapping[str, Tensor]) -> None:
        group = self._group(param)
        extra_of(self._own.layout(param, group).kind, param, extras)
        if extras:
            self._own.load_extras(param, extras)

    def moments(self) -> dict[Parameter, dict[str, Tensor]]:
        return {
            param: dict(moments_of(self._own.state[param], self._own.moment_names(group)))
            for param, group in parameters_of(self._own)
            if param in self._own.state
        }

    def restore(self) -> None:
        """The optimizer goes on as it is: it keeps its weights without a session too."""
        self._wide.release()

    def _group(self, param: Parameter) -> Group:
        return next(group for held, group in parameters_of(self._own) if held is param)

    def _keep_new(self) -> None:
        for param, group in parameters_of(self._own):
            if param.dtype in HALF_DTYPES and param not in self._wide:
                self._wide.allow(param)
                self._own.stored_weight(param, group)
