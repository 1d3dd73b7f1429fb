"""The optimizers of a session, by name; each refusal says what to do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from torch import Tensor, nn
from torch.optim import Optimizer

_Kept = TypeVar("_Kept")

#: What an optimizer is called that is the only one.
ONLY = "optimizer"


def name_optimizers(model: nn.Module, given: object) -> dict[str, Optimizer]:
    """Give optimizers their names: the only one ``"optimizer"``, those of a list with their number behind it.

    Raises:
        TypeError: what is no optimizer, or a name that is no text.
        ValueError: none at all; one without parameters, with parameters that are not the model's or another's too, or
            whose step needs a closure.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> from torch.optim import SGD
        >>> list(name_optimizers(model, [SGD([model.weight], lr=0.1), SGD([model.bias], lr=0.2)]))
        ['optimizer0', 'optimizer1']
    """
    named = _named(given)
    if not named:
        raise ValueError("prepare: got no optimizer: give one, a list, or a mapping from names to optimizers")
    for name, optimizer in named.items():
        _check_optimizer(model, name if len(named) > 1 else "", optimizer)
    optimizers = cast("dict[str, Optimizer]", named)
    _check_apart(model, optimizers)
    return optimizers


def choose(kept: Mapping[str, _Kept], name: str | None) -> Mapping[str, _Kept]:
    """Those that a step is for: all, or the one of that name.

    Raises:
        ValueError: there is none of that name.
    """
    if name is None:
        return kept
    if name not in kept:
        raise ValueError(f"step: no optimizer is named {name!r}, expected one of: {', '.join(kept)}")
    return {name: kept[name]}


def the_only(optimizers: Mapping[str, Optimizer]) -> Optimizer:
    """The optimizer of a session that has one.

    Raises:
        AttributeError: it has several.
    """
    if len(optimizers) > 1:
        names = ", ".join(f"session.optimizers['{name}']" for name in optimizers)
        raise AttributeError(f"the session has {len(optimizers)} optimizers: {names}")
    return next(iter(optimizers.values()))


def _named(given: object) -> dict[str, object]:
    if isinstance(given, Mapping):
        named = cast("Mapping[object, object]", given)
        for name in named:
            if not isinstance(name, str) or not name:
                raise TypeError(f"prepare: the name of an optimizer is {name!r}, expected a text that is not empty")
        return dict(cast("Mapping[str, object]", given))
    if isinstance(given, Sequence) and not isinstance(given, str):
        several = cast("Sequence[object]", given)
        return {ONLY if len(several) == 1 else f"{ONLY}{i}": optimizer for i, optimizer in enumerate(several)}
    return {ONLY: given}


def _check_optimizer(model: nn.Module, name: str, optimizer: object) -> None:
    who = f"optimizer '{name}'" if name else "the optimizer"
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"prepare: {who.removeprefix('the ')} is a {type(optimizer).__name__}, expected a torch.optim.Optimizer, a "
            "list of them, or a mapping from names to them; the order is prepare(model, optimizer)"
        )
    if _needs_closure(optimizer):
        raise ValueError(
            f"prepare: {who}: {type(optimizer).__name__}.step needs a closure, which evaluates the loss several times "
            "in one step: a loss scale and skipped steps have no meaning there; use an optimizer whose step needs none"
        )
    params: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
    if not params:
        raise ValueError(f"prepare: {who} has no parameters: build it from model.parameters()")
    own = {id(p) for p in model.parameters()}
    foreign = [p for p in params if id(p) not in own]
    if foreign:
        shapes = ", ".join(str(list(p.shape)) for p in foreign[:3]) + (", ..." if len(foreign) > 3 else "")
        raise ValueError(
            f"prepare: {len(foreign)} of {len(params)} parameters of {who} are not the model's (shapes "
            f"{shapes}): build the optimizer from this model's parameters, after sharding or copying it; an optimizer "
            "that was prepared before holds masters until session.restore()"
        )


def _check_apart(model: nn.Module, optimizers: Mapping[str, Optimizer]) -> None:
    owners: dict[int, str] = {}
    for name, optimizer in optimizers.items():
        for param in [p for group in optimizer.param_groups for p in group["params"]]:
            other = owners.setdefault(id(param), name)
            if other != name:
                site = next(n for n, p in model.named_parameters() if p is param)
                raise ValueError(
                    f"prepare: {site} is in optimizer '{other}' and in optimizer '{name}': each would update it; give "
                    "it to one"
                )


def _needs_closure(optimizer: Optimizer) -> bool:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
