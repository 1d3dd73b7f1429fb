"""The subclass that a prepared optimizer's class is swapped for: what it clears and adds, the model's side has too."""

from __future__ import annotations

import functools
from typing import Any

from torch.optim import Optimizer

from ._prepared import ATTRIBUTE


@functools.cache
def prepared_class(base: type[Optimizer]) -> type[Optimizer]:
    """The subclass of ``base``: same name, one for each base; copied and pickled as ``base``."""

    def zero_grad(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        base.zero_grad(self, *args, **kwargs)
        _agree(self)

    def add_param_group(self: Optimizer, param_group: dict[str, Any]) -> None:
        base.add_param_group(self, param_group)
        found = vars(self).get(ATTRIBUTE)
        if found is None:
            return
        try:
            found.keeping.check(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise
        found.keeping.agree()

    def reduce_ex(self: Optimizer, protocol: Any) -> Any:
        return _blank, (base,), self.__getstate__()

    body = {
        "zero_grad": functools.wraps(base.zero_grad)(zero_grad),
        "add_param_group": functools.wraps(base.add_param_group)(add_param_group),
        "__reduce_ex__": reduce_ex,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(base.__name__, (base,), body)


def _agree(optimizer: Optimizer) -> None:
    found = vars(optimizer).get(ATTRIBUTE)
    if found is not None:
        found.keeping.agree()


def _blank(base: type[Optimizer]) -> Optimizer:
    """An instance for pickle and deepcopy to fill."""
    return base.__new__(base)
