"""Subclasses that a module's class is swapped for: same name, and copied and pickled as what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Maker = Callable[[type[nn.Module]], type[nn.Module]]


def subclass_of(base: type[nn.Module], forward: Callable[..., Any], maker: Maker) -> type[nn.Module]:
    """The subclass of ``base`` with another ``forward``.

    Args:
        base: any module class.
        forward: takes the module and what its forward takes.
        maker: the importable function that makes this class of ``base``, for pickle.
    """
    body = {
        "forward": forward,
        "__reduce_ex__": _reduce,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "_mixprec_base": base,
        "_mixprec_maker": maker,
    }
    return type(base.__name__, (base,), body)


def base_class(module: nn.Module) -> type[nn.Module]:
    """The user's class of a module, whether or not it is converted."""
    cls = type(module)
    while "_mixprec_base" in cls.__dict__:
        cls = cls.__dict__["_mixprec_base"]
    return cls


def _reduce(self: nn.Module, protocol: Any) -> Any:
    makers: list[Maker] = []
    cls = type(self)
    while "_mixprec_base" in cls.__dict__:
        makers.append(cls.__dict__["_mixprec_maker"])
        cls = cls.__dict__["_mixprec_base"]
    return (
        blank,
        (cls, tuple(reversed(makers))),
        self.__getstate__() if hasattr(self, "__getstate__") else self.__dict__,
    )


def blank(base: type[nn.Module], makers: tuple[Maker, ...]) -> nn.Module:
    """An instance for pickle and deepcopy to fill."""
    for maker in makers:
        base = maker(base)
    return base.__new__(base)
