"""The names of a model's parameters, looked up in every step and gathered only when they have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import nn
from torch.nn import Parameter


class NamedParameters:
    """Parameters by name and names by parameter; gathered anew where one is asked for that was not there.

    Args:
        model: the root.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> named = NamedParameters(model)
        >>> named.names([model.bias])[model.bias], list(named.parameters)
        ('bias', ['weight', 'bias'])
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._parameters: dict[str, Parameter] = {}
        self._names: dict[Parameter, str] = {}
        self._foreign: set[Parameter] = set()

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """As they were gathered last."""
        return self._parameters

    def names(self, params: Iterable[Parameter]) -> Mapping[Parameter, str]:
        """Names of all parameters, among them these, but for those that are not the model's."""
        if any(p not in self._names and p not in self._foreign for p in params):
            self._parameters = dict(self._model.named_parameters())
            self._names = {p: name for name, p in self._parameters.items()}
            self._foreign = {p for p in params if p not in self._names}
        return self._names
