"""Names of a model's parameters, whatever wraps the model or its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

_COMPILED, _PARALLEL = "_orig_mod.", "module."

T = TypeVar("T")


def plain_name(name: str) -> str:
    """A name without what ``torch.compile``, DDP and ``nn.DataParallel`` put into it.

    Example:
        >>> plain_name("module._orig_mod.blocks.0._orig_mod.weight")
        'blocks.0.weight'
    """
    name = name.replace(_COMPILED, "")
    while name.startswith(_PARALLEL):
        name = name.removeprefix(_PARALLEL)
    return name


def renamed(values: Mapping[str, T], own: Iterable[str]) -> dict[str, T]:
    """Give values the names that a model has now, where they differ by wrappers alone.

    Raises:
        ValueError: two names are the same without wrappers.

    Example:
        >>> renamed({"module.weight": 1, "other": 2}, ["_orig_mod.weight"])
        {'_orig_mod.weight': 1, 'other': 2}
    """
    here = list(own)
    by_plain = {plain_name(name): name for name in here}
    if set(values) <= set(here):
        return dict(values)
    new = {by_plain.get(plain_name(name), name): value for name, value in values.items()}
    if len(new) != len(values) or len(by_plain) != len(here):
        raise ValueError("names of the state are the same without 'module.' and '_orig_mod.': rename them first")
    return new
