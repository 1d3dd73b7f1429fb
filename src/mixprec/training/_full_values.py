"""The full value of every parameter, however it is kept."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import Parameter

from ..monitor import UpdateWatch
from ..optim import HALF_DTYPES, KeptWeights
from ._result import Event

_FOLLOWS = "what is kept of {} follows a write to the 16-bit weight from outside (a checkpoint without masters?)"


class FullValues:
    """Values that the next update starts from.

    Args:
        model: whose parameters they are.
        kept: the optimizers that keep what 16 bits lack.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights]) -> None:
        self._model, self._kept = model, kept
        self._owners: dict[Parameter, KeptWeights] = {}

    def named(self, name: str) -> Tensor:
        """Of the parameter of that name.

        Raises:
            ValueError: the model has none of that name.
        """
        params = dict(self._model.named_parameters(remove_duplicate=False))
        if name not in params:
            near = difflib.get_close_matches(str(name), params, n=3, cutoff=0.3) or list(params)[:3]
            raise ValueError(
                f"full_weight: no parameter is named {name!r}, expected a name of model.named_parameters(), e.g. "
                f"{', '.join(near)}"
            )
        self.see()
        return self.of(params[name])

    def of(self, param: Parameter) -> Tensor:
        """Of a parameter, fresh: fp32, or its own dtype where that is wider."""
        owner = self._owners.get(param)
        if owner is not None:
            return owner.full_weight(param)
        value = param.detach()
        return value.clone() if value.dtype.itemsize >= 4 else value.float()

    def see(self) -> None:
        """Look anew which optimizer has which parameter."""
        self._owners = {p: weights for weights in self._kept.values() for p in weights.parameters()}

    def update_watches(self) -> dict[str, UpdateWatch]:
        """One over the parameters of 16 bits of each optimizer that has such, by its name."""
        self.see()
        halves = {n: p for n, p in self._model.named_parameters() if p.dtype in HALF_DTYPES}
        own = {
            name: {n: p for n, p in halves.items() if self._owners.get(p) is weights}
            for name, weights in self._kept.items()
        }
        return {name: UpdateWatch(params) for name, params in own.items() if params}

    def adopt_writes(self, chosen: Mapping[str, KeptWeights], step: int) -> list[Event]:
        """Take over what was written to weights of these optimizers from outside, and tell what is kept otherwise now.

        Args:
            chosen: optimizers.
            step: applied steps so far.
        """
        written = {id(p) for kept in chosen.values() for p in kept.adopt_writes()}
        names = [name for name, p in self._model.named_parameters() if id(p) in written] if written else []
        return [Event(step=step, name="master follows", message=_FOLLOWS.format(name), site=name) for name in names]
