"""The function mode that applies a recipe's rules to what a model calls directly.

It runs inside torch's own autocast region and obeys its state: a user's ``torch.autocast(enabled=False)`` region
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]  # the stack has no public spelling
)

from ._handlers import HANDLERS
from ._multihead import multi_head_attention_forward
from ._plain_products import PLAIN
from ._product_handlers import product_handler
from ._site import ConversionState
from ._user_regions import is_left_to_torch


class ComputeMode(TorchFunctionMode):
    """Applies the compute dtype's rules to every torch function called while it is on."""

    def __init__(self, state: ConversionState) -> None:
        super().__init__()
        self.state = state

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return apply_rules(self, self.state, func, args, kwargs or {})


def apply_rules(
    mode: TorchFunctionMode,
    state: ConversionState,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """One call that ``mode`` has seen, as the rules of ``state`` want it."""
    reaches = state.is_16bit or state.functions
    if func is torch.nn.functional.multi_head_attention_forward and reaches and not is_left_to_torch(state):
        # A mode is off while it handles a call; the products inside have to see it again.
        with mode:
            return multi_head_attention_forward(state, *args, **kwargs)
    handler = product_handler(func, args, kwargs) or (HANDLERS.get(func) if state.is_16bit else PLAIN.get(func))
    if handler is not None and not is_left_to_torch(state):
        return handler(state, func, args, kwargs)
    if func is torch.Tensor.unflatten:
        # Under a mode, torch's compiler inlines this one method and stops at its super() call.
        func = torch.unflatten
    return func(*args, **kwargs)


def active_state() -> ConversionState | None:
    """The conversion whose region the running code is in, if any."""
    return next((mode.state for mode in reversed(running_modes()) if isinstance(mode, ComputeMode)), None)


def is_active(state: ConversionState) -> bool:
    """Whether the running code is inside a region of this conversion."""
    return any(isinstance(mode, ComputeMode) and mode.state is state for mode in running_modes())


def running_modes() -> list[TorchFunctionMode]:
    """The function modes of this thread, the outermost first."""
    return _get_current_function_mode_stack()
