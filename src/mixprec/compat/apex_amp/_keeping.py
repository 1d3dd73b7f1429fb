"""The weights behind a prepared optimizer: the model's own, or fp32 masters of its 16-bit ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ...optim import HALF_DTYPES, SGD, AdamW, KeptWeights
from ._eps import check_eps


class AsTheyAre:
    """The optimizer updates the model's own parameters, in their dtype."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer

    def parameters(self) -> list[Parameter]:
        """The model's own parameters."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def check(self, group: Mapping[str, Any]) -> None:
        """Refuse a group whose parameters the optimizer cannot update so.

        Raises:
            ValueError: see ``check_eps``.
        """
        check_eps(self.optimizer, group)

    def agree(self) -> None:
        """What was cleared, or added, on the optimizer's side is so on the model's, and the other way about."""

    def set_gradient(self, param: Parameter, wide: Tensor) -> None:
        """Give a parameter its unscaled gradient, which is fp32 or wider."""
        param.grad = wide.to(param.dtype) if param.dtype in HALF_DTYPES else wide

    def attach(self) -> None:
        """Gradients have been set on the model's side: the optimizer's are the same."""

    def write(self) -> None:
        """The optimizer has stepped: write the model's weights."""

    def full_weight(self, param: Parameter) -> Tensor | None:
        """The master of a parameter, fresh."""
        return None

    def load_full_weight(self, param: Parameter, value: Tensor) -> None:
        """Continue from a saved master."""


class Masters(AsTheyAre):
    """The optimizer updates fp32 masters; a 16-bit parameter is its master, rounded.

    The gradient of a master is its parameter's, the same fp32 tensor.
    """

    def __init__(self, kept: KeptWeights) -> None:
        super().__init__(kept.optimizer)
        self._kept = kept
        self._is_written = isinstance(kept.optimizer, SGD | AdamW)  # those of mixprec.optim write the model themselves

    def parameters(self) -> list[Parameter]:
        return self._kept.parameters()

    def check(self, group: Mapping[str, Any]) -> None:
        """Any group will do: its masters are fp32."""

    def agree(self) -> None:
        self._kept.begin_backward()
        self._kept.adopt_writes()

    def set_gradient(self, param: Parameter, wide: Tensor) -> None:
        param.grad = wide

    def attach(self) -> None:
        self._kept.gradients()

    def write(self) -> None:
        if not self._is_written:
            self._kept.write_back()

    def full_weight(self, param: Parameter) -> Tensor | None:
        return self._kept.full_weight(param)

    def load_full_weight(self, param: Parameter, value: Tensor) -> None:
        self._kept.load_full_weight(param, value)
