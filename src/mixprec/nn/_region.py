"""The region of a conversion: entered by the model's outermost converted module, left when it returns.

A module's class becomes a subclass of itself whose ``forward`` runs inside the region. Submodules are made
regions too, since activation checkpointing calls them again outside the outermost one; inside a region that is
already entered they add nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch's own; knows the output classes that libraries register

from ._autograd import is_in_backward, traces_in_backward
from ._class_swap import subclass_of
from ._compute_mode import ComputeMode, is_active
from ._function_region import functions_aside
from ._observer import observing
from ._site import ConversionState
from ._user_regions import ATTRIBUTE, begin_pass, note_module

PATH = "_mixprec_path"


def run_in_region(module: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``forward(module, ...)`` inside the region that ``module`` belongs to."""
    state: ConversionState | None = module.__dict__.get(ATTRIBUTE)
    if state is None:
        return forward(module, *args, **kwargs)
    if not is_active(state):
        return run_outermost(state, module.__dict__[PATH], functools.partial(forward, module), args, kwargs)
    current, path = state.current, module.__dict__[PATH]
    note_module(state, path)
    repeats = state.enter_call(args, kwargs)
    before, current.running = current.running, path
    try:
        return forward(module, *args, **kwargs)
    finally:
        current.running = before
        state.leave_call(repeats)


def run_outermost(
    state: ConversionState, path: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``forward(...)`` of the module at ``path`` in a region of its own: a pass, or the recomputation of one.

    That is the model's root; or a part of the model that something else than its root's forward calls.
    """
    current = state.current
    current.running = path
    if is_in_backward():
        # Recomputation: checkpointing restored the autocast state and the forward pass drew its random bits.
        begin_pass(state, current.running, recomputes=True)
        repeats = state.enter_call(args, kwargs)
        state.show_to_traces()
        try:
            with functions_aside(), ComputeMode(state):
                return forward(*args, **kwargs)
        finally:
            state.leave_call(repeats)
    _refuse_traced_recomputation(state, current.running)
    observer = None if torch.compiler.is_compiling() else state.observer
    with functions_aside(), autocast_of(state), ComputeMode(state), observing(observer):
        begin_pass(state, current.running, recomputes=False)
        note_module(state, current.running)
        current.records = torch.is_grad_enabled()
        if current.records:  # an evaluation in between must not change the training's random bits
            state.draw()
        else:
            state.look()
        state.show_to_traces()
        state.enter_call(args, kwargs)
        try:
            outputs = forward(*args, **kwargs)
        finally:
            state.end_pass()
    if not current.records:  # a training pass is followed by its backward pass, and by the next step
        current.workspace.release()
    return (
        pytree.tree_map(functools.partial(_widened, dtype=state.compute_dtype), outputs) if state.is_16bit else outputs
    )


def _refuse_traced_recomputation(state: ConversionState, path: str) -> None:
    """Compiled code knows of no pass; where passes differ, a part that is recomputed has to be eager.

    Raises:
        RuntimeError: naming the part.
    """
    if torch.compiler.is_compiling() and (state.streams or state.histories) and traces_in_backward():
        raise RuntimeError(
            f"{path or 'the model'}: a compiled part of a model is recomputed (activation checkpointing around "
            "torch.compile) under a recipe with random roundings or delayed scales, and compiled code does not know "
            "which forward pass that repeats: checkpoint it without compiling it, or compile it without a checkpoint"
        )


def autocast_of(state: ConversionState) -> torch.autocast:
    """The autocast region of a conversion: on for a 16-bit compute dtype, off (whatever is outside) for fp32.

    Torch's cache of cast weights is off: within one long region it would serve weights from before an update.
    """
    if not state.is_16bit:
        return torch.autocast(state.device_type, enabled=False)
    return torch.autocast(state.device_type, dtype=state.compute_dtype, cache_enabled=False)


def _widened(value: Any, dtype: torch.dtype) -> Any:
    """Outputs leave the region in fp32, so that a loss outside it is not computed in 16 bits."""
    return value.float() if isinstance(value, Tensor) and value.dtype == dtype else value


@functools.cache
def region_class(base: type[nn.Module]) -> type[nn.Module]:
    """The subclass of ``base`` whose forward runs in a region; same name, one for each base."""

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return run_in_region(self, base.forward, args, kwargs)

    return subclass_of(base, forward, region_class)
