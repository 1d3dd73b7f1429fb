"""Any torch optimizer, the user's own included: fp32 masters stand in its groups for 16-bit parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ..specs import Weights
from ._draws import weight_draw
from ._groups import owners, substitute
from ._kept_weights import KeptWeights
from ._own_steps import OwnSteps
from ._stored import refuse_sharded, weight_kind
from ._substitute import FleetingMaster, LastingMaster, Substitute
from ._wide_gradients import HALF_DTYPES, scale_gradients


class SubstitutedWeights(KeptWeights):
    """Weights of an optimizer that knows nothing of how they are kept."""

    def __init__(self, optimizer: Optimizer, kind: Weights, seed: int) -> None:
        super().__init__(optimizer, seed)
        self._kind: Weights = kind
        self._substitutes: dict[Parameter, Substitute] = {}
        self._models: dict[Parameter, Parameter] = {}  # of a master
        self._own_steps = OwnSteps(self._holds_masters)
        self._keep_new()

    def parameters(self) -> list[Parameter]:
        held: list[Parameter] = [p for group in self.optimizer.param_groups for p in group["params"]]
        return [self._models.get(p, p) for p in held]

    def begin_backward(self) -> None:
        self._keep_new()
        for kept in self._substitutes.values():
            kept.agree_on_cleared()
        super().begin_backward()
        self._attach()

    def gradients(self) -> dict[Parameter, Tensor]:
        for kept in self._substitutes.values():
            kept.agree_on_cleared()
        return super().gradients()

    def apply(self, factor: float) -> None:
        self._keep_new()
        self.adopt_writes()
        if factor != 1.0 or self._substitutes:
            self._wide.widen()
        params = self.parameters()
        scale_gradients(params, factor)
        self._narrow(params)
        self._attach()
        for kept in self._substitutes.values():
            kept.bring()
        try:
            with self._own_steps.stepping():
                self.optimizer.step()
            for kept in self._substitutes.values():
                kept.refuse_written(type(self.optimizer).__name__)
        finally:
            for index, param in enumerate(params):
                if param in self._substitutes:
                    self._substitutes[param].put(weight_draw(self.seed, self.applied, index))
        self.applied += 1

    def make_state(self) -> None:
        self.apply(1.0)

    def refuse_other_steps(self) -> None:
        self._own_steps.guard(owners(self.optimizer))

    def clear_gradients(self, *, set_to_none: bool = True) -> None:
        self._attach()
        super().clear_gradients(set_to_none=set_to_none)
        for kept in self._substitutes.values():
            kept.agree_on_cleared()

    def adopt_writes(self) -> list[Parameter]:
        return [param for param, kept in self._substitutes.items() if kept.adopt()]

    def write_back(self) -> None:
        for kept in self._substitutes.values():
            kept.write_back()

    def full_weight(self, param: Parameter) -> Tensor:
        kept = self._substitutes.get(param)
        if kept is not None:
            return kept.full_weight()
        return param.detach().float() if param.dtype in HALF_DTYPES else param.detach().clone()

    @torch.no_grad()
    def load_full_weight(self, param: Parameter, value: Tensor) -> None:
        kept = self._substitutes.get(param)
        if kept is not None:
            kept.load_full_weight(value)
        else:
            param.copy_(value)

    def extras(self) -> dict[Parameter, dict[str, Tensor]]:
        return {param: kept.extras() for param, kept in self._substitutes.items()}

    def load_extras(self, param: Parameter, extras: Mapping[str, Tensor]) -> None:
        kept = self._substitutes.get(param)
        if kept is not None:
            kept.load_extras(extras)
        elif extras:
            raise ValueError(
                f"a {param.dtype} parameter of shape {list(param.shape)} is kept without extras here, got "
                f"{', '.join(sorted(extras))} to continue from"
            )

    def moments(self) -> dict[Parameter, dict[str, Tensor]]:
        return {
            self._models.get(p, p): {
                name: value
                for name, value in state.items()
                if isinstance(value, Tensor) and name != "step" and (value.dim() > 0 or p.dim() == 0)
            }
            for p, state in self.optimizer.state.items()
            if isinstance(p, Parameter)
        }

    def restore(self) -> None:
        """Give the optimizer the model's own parameters back, its state cast to their dtype.

        A master's bits below the parameter's precision are lost.
        """
        self._own_steps.release()
        back = dict(self._models)
        for kept in self._substitutes.values():
            kept.release()
        self._substitutes, self._models = {}, {}
        self._wide.release()
        substitute(self.optimizer, back, lambda tensor, param: tensor.to(param.dtype))

    def _holds_masters(self) -> bool:
        return bool(self._substitutes)

    def _keep_new(self) -> None:
        """Keep what is not kept yet: all of it at first, later what ``add_param_group`` brought."""
        halves = [p for group in self.optimizer.param_groups for p in group["params"] if p.dtype in HALF_DTYPES]
        new = [p for p in halves if p not in self._wide]
        made = {param: self._substitute(param) for param in new if self._kind != "true"}
        for param in new:
            self._wide.allow(param)
        if made:
            self._substitutes |= made
            self._models |= {kept.master: param for param, kept in made.items()}
            substitute(self.optimizer, {p: kept.master for p, kept in made.items()}, lambda tensor, _: tensor.float())

    def _substitute(self, param: Parameter) -> Substitute:
        kind = weight_kind(self._kind, param)
        if kind == "master":
            return LastingMaster(param)
        refuse_sharded(param, f"weights='{self._kind}'", "use weights='master'")
        return FleetingMaster(param, kind)

    def _attach(self) -> None:
        for kept in self._substitutes.values():
            kept.attach_gradient()

    def _narrow(self, params: list[Parameter]) -> None:
        """Round gradients of 16-bit parameters that the optimizer updates as they are."""
        for param in params:
            if param.dtype in HALF_DTYPES and param not in self._substitutes and param.grad is not None:
                param.grad = param.grad.to(param.dtype)
