"""A 16-bit region around code whose model is not converted: functions that it calls follow the compute dtype's rules.

Torch's own autocast state says where the rules hold and in which dtype, so that regions inside, torch's own too, switch
them off, on, or to the other dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ._compute_mode import ComputeMode, apply_rules, running_modes
from ._device import native_compute
from ._recomputation import Recomputations
from ._site import ConversionState
from ._weight_cache import NoCodes

_16_BIT = (torch.bfloat16, torch.float16)


class FunctionMode(TorchFunctionMode):
    """The compute dtype's rules for every torch function, wherever torch's autocast is on.

    One is enough for a thread: where ``is_ruled()`` says that there are rules already, only autocast has to be entered.

    Args:
        device: what the functions run on.

    Attributes:
        is_aside: whether a converted model is running inside, whose recipe has its own rules.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.is_aside = False
        self._device = device
        self._states: dict[tuple[torch.dtype, bool], ConversionState] = {}  # a trace's own know no threads
        self._recomputations = Recomputations(self._enter_again)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, dtype = kwargs or {}, torch.get_autocast_dtype(self._device.type)
        if self.is_aside or not torch.is_autocast_enabled(self._device.type) or dtype not in _16_BIT:
            return func(*args, **kwargs)
        state = self._states.get((dtype, torch.compiler.is_compiling())) or self._begin(dtype)
        if torch.compiler.is_compiling():
            return apply_rules(self, state, func, args, kwargs)
        self._recomputations.before(args)
        result = apply_rules(self, state, func, args, kwargs)
        self._recomputations.after(result)
        return result

    def _begin(self, dtype: torch.dtype) -> ConversionState:
        native = _natively(self._device, dtype)
        state = ConversionState(
            compute_dtype=dtype, device_type=self._device.type, native_compute=native, weights=NoCodes(), is_twice=True
        )
        self._states[dtype, torch.compiler.is_compiling()] = state
        return state

    def _enter_again(self) -> None:
        if not is_ruled():
            self.__enter__()


def _natively(device: torch.device, dtype: torch.dtype) -> bool:
    return native_compute(device, dtype)


# Asked, not traced: what torch.compiler.assume_constant_result sets.
_natively._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def is_ruled() -> bool:
    """Whether the running code is in a region already, of a conversion or of functions."""
    return any(isinstance(mode, ComputeMode | FunctionMode) for mode in running_modes())


@contextmanager
def functions_aside() -> Generator[None]:
    """Inside, a converted model runs: regions of functions around it leave its calls to its own recipe."""
    modes = [mode for mode in running_modes() if isinstance(mode, FunctionMode) and not mode.is_aside]
    for mode in modes:
        mode.is_aside = True
    try:
        yield
    finally:
        for mode in modes:
            mode.is_aside = False
