"""Calls that a recipe leaves to torch in fp32: seen by whoever observes the step, and otherwise as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._site import ConversionState


def plain(state: ConversionState, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as it is; the recipe knows of it and wants it so."""
    observer = state.listener
    if observer is None:
        return func(*args, **kwargs)
    with observer.plain_call():
        return func(*args, **kwargs)
