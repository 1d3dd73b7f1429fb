"""Moving averages of the weights that advance on applied steps only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor, nn
from torch.nn import Parameter

from ..optim import KeptWeights, WeightAverage


class Averages(dict[str, WeightAverage]):
    """Averages by name, each with the optimizers whose steps it follows.

    Args:
        model: whose parameters are averaged.
        kept: the optimizers that have their full values.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights]) -> None:
        super().__init__()
        self._model, self._kept = model, kept
        self._follows: dict[str, Collection[str]] = {}
        self._owners: dict[Parameter, KeptWeights] = {}

    def make(self, name: str, decay: float, optimizers: Collection[str]) -> WeightAverage:
        """Begin an average: of all parameters, or, where not all optimizers are given, of theirs.

        Raises:
            ValueError: a decay out of its range, or a name that is taken.
        """
        if name in self:
            raise ValueError(f"average: there is one named '{name}' already: give this one another name=")
        self._owners = {p: weights for weights in self._kept.values() for p in weights.parameters()}
        params = dict(self._model.named_parameters())
        if len(optimizers) < len(self._kept):
            held = {p for key in optimizers for p in self._kept[key].parameters()}
            params = {n: p for n, p in params.items() if p in held}
        self[name] = WeightAverage(params, decay, full_weight=self._full_weight)
        self._follows[name] = optimizers
        return self[name]

    def advance(self, stepped: Collection[str]) -> None:
        """Take in the weights as they are, where one of these optimizers changes them."""
        for name, average in self.items():
            if any(key in stepped for key in self._follows[name]):
                average.update()

    def _full_weight(self, param: Parameter) -> Tensor:
        owner = self._owners.get(param)
        if owner is not None:
            return owner.full_weight(param)
        value = param.detach()
        return value.clone() if value.dtype.itemsize >= 4 else value.float()
