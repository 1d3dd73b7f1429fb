"""Running statistics and other buffers of prepared models: a skipped step leaves them as they were."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.nn import Parameter

from ...training import StatisticsKeeper


class Buffers:
    """The buffers of the models of one ``initialize``.

    Args:
        models: as the level has made them.
        updated: the parameters that the optimizers of the call update.
    """

    def __init__(self, models: Iterable[nn.Module] = (), updated: Iterable[Parameter] = ()) -> None:
        trained = set(updated)
        self._keepers = [(StatisticsKeeper(m), set(m.parameters())) for m in models]
        self._is_trained = [not trained.isdisjoint(params) for _, params in self._keepers]

    def forget(self, updated: Iterable[Parameter]) -> None:
        """A step was applied: what its models have seen stays; so does what a model has seen that nobody trains.

        Args:
            updated: the parameters of the optimizer that has stepped.
        """
        stepped = set(updated)
        for (keeper, params), is_trained in zip(self._keepers, self._is_trained, strict=True):
            if not is_trained or not params.isdisjoint(stepped):
                keeper.forget()

    def give_back(self) -> list[str]:
        """A step was skipped: what any model has seen since its own last step may have been at fault.

        Returns:
            Names of buffers that were changed and of which there was no copy.
        """
        return [name for keeper, _ in self._keepers for name in keeper.give_back()]
