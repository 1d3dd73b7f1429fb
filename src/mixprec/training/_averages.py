"""Moving averages of the weights that advance on applied steps only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import nn

from ..optim import KeptWeights, WeightAverage
from ._full_values import FullValues


class Averages(dict[str, WeightAverage]):
    """Averages by name, each with the optimizers whose steps it follows.

    Args:
        model: whose parameters are averaged.
        kept: the optimizers.
        values: the parameters' full values.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights], values: FullValues) -> None:
        super().__init__()
        self._model, self._kept, self._values = model, kept, values
        self._follows: dict[str, Collection[str]] = {}

    def make(self, name: str, decay: float, optimizers: Collection[str]) -> WeightAverage:
        """Begin an average: of all parameters, or, where not all optimizers are given, of theirs.

        Raises:
            ValueError: a decay out of its range, or a name that is taken.
        """
        if name in self:
            raise ValueError(f"average: there is one named '{name}' already: give this one another name=")
        self._values.see()
        params = dict(self._model.named_parameters())
        if len(optimizers) < len(self._kept):
            held = {p for key in optimizers for p in self._kept[key].parameters()}
            params = {n: p for n, p in params.items() if p in held}
        self[name] = WeightAverage(params, decay, full_weight=self._values.of)
        self._follows[name] = optimizers
        return self[name]

    def advance(self, stepped: Collection[str]) -> None:
        """Take in the weights as they are, where one of these optimizers changes them."""
        for name, average in self.items():
            if any(key in stepped for key in self._follows[name]):
                average.update()

    def refuse_swapped_in(self, what: str) -> None:
        """Refuse what would take averages for the weights.

        Raises:
            RuntimeError: an average is in the model now.
        """
        name = next((name for name, average in self.items() if average.is_swapped_in), None)
        if name is not None:
            raise RuntimeError(
                f"{what}: the average '{name}' is in the model in place of the weights: call it after swapped_in() has "
                "ended"
            )
