"""Regions of a model that its author keeps out of autocast: ``with torch.autocast(device, enabled=False)``.

What such a region computes is left to torch, under every recipe. A 16-bit recipe runs inside an autocast region that
is on, so that one that is off is the author's. Under fp32 activations the recipe's own region is off too, and the
author's is told by torch's count of open regions.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from ._autograd import is_in_backward
from ._class_swap import subclass_of
from ._site import ConversionState
from ._telling import plain

#: Name of the instance attribute of a module that runs in a region of a conversion: the conversion's state.
ATTRIBUTE = "_mixprec_region"


def open_regions() -> int:
    """How many autocast regions are open on this thread."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


# What torch.compiler.assume_constant_result sets; calling that would import the whole compiler here. A trace opens the
# regions that it sees, so that their count is that of the traced place.
open_regions._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def begin_pass(state: ConversionState, path: str, *, recomputes: bool) -> None:
    """Note how many regions are open where a pass, or the recomputation of the module at ``path``, begins."""
    if state.is_16bit:
        return
    current = state.current
    current.depth = open_regions()
    if recomputes and path in state.left:
        current.depth -= 1  # checkpointing restores the state of autocast, not how it came about


def is_left_to_torch(state: ConversionState) -> bool:
    """Whether the running code is in a region that the model's author keeps out of autocast."""
    if torch.is_autocast_enabled(state.device_type):
        return False
    return state.is_16bit or open_regions() > state.current.depth


def note_module(state: ConversionState, path: str) -> None:
    """Remember whether a module that begins is in such a region: its recomputation will not see it."""
    if torch.compiler.is_compiling() or is_in_backward():
        return
    left = state.left
    if is_left_to_torch(state):
        left.add(path)
    else:
        left.discard(path)


@functools.cache
def apart_class(base: type[nn.Module]) -> type[nn.Module]:
    """The subclass of a parametrization that computes a weight as torch does: that is no layer's product."""

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        state: ConversionState = self.__dict__[ATTRIBUTE]
        with torch.autocast(state.device_type, enabled=False):
            return plain(state, functools.partial(base.forward, self), args, kwargs)

    return subclass_of(base, forward, apart_class)
