"""A region of torch's autocast whose functions follow the rules of mixprec's 16-bit recipes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, TypeVar, cast

import torch

from ...nn import FunctionMode, is_ruled
from ._device_here import device_here, tell_device

_Function = TypeVar("_Function", bound=Callable[..., Any])
_16_BIT = (torch.bfloat16, torch.float16)


class autocast:
    """``torch.autocast`` for a loop that is kept: context manager and decorator, reusable, one in another.

    Inside, what a model calls computes as under the recipes ``bf16`` and ``fp16``, though nothing is converted:
    products take operands rounded to ``dtype`` and sum in fp32 (through the fp32 engine where the device does not
    multiply ``dtype`` faster), the operations that need fp32 are one explicit list on every device, masks and
    constants that fp16 does not hold go to fp32, and a weight's gradient is not rounded. No cast of a weight outlives
    its use, so that one region may span many optimizer steps. What it computes leaves the region in the dtype that it
    has.

    A model that ``mixprec.convert`` has converted computes as its own recipe says, inside as outside. Activation
    checkpointing recomputes by the region's rules. As in torch the region is its thread's, the backward pass belongs
    outside of it, and ``enabled=False`` leaves what is inside to torch.

    Args:
        device_type: ``"cuda"``, ``"cpu"``, ...; where there is no CUDA, the CPU stands for it.
        dtype: ``torch.float16`` or ``torch.bfloat16``; ``None``: torch's default for the device type, fp16 for CUDA and
            bf16 for a CPU; ``torch.float32``: nothing is narrowed.
        enabled: whether the rules hold.
        cache_enabled: taken and not needed: casts are never cached.

    Raises:
        TypeError: arguments of other kinds.
        ValueError: a dtype narrower than 16 bits, or one that no region has.
        RuntimeError: a device type without autocast.

    Warns:
        UserWarning: the CPU stands for CUDA.

    Source: the interface is that of ``torch.autocast``, https://docs.pytorch.org/docs/stable/amp.html.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> with autocast("cpu", torch.bfloat16):
        ...     y = layer(torch.ones(1, 2))
        >>> y.dtype, layer.weight.dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_device_type(device_type)
        self.fast_dtype = torch.get_autocast_dtype(device_type) if dtype is None else dtype
        _check_dtype(self.fast_dtype)
        if enabled:
            tell_device(device_type, "autocast")
        self.device = device_here(device_type)
        self._enabled = bool(enabled) and self.fast_dtype in _16_BIT
        self._own = _Open() if torch.compiler.is_compiling() else _OpenOnThread()  # a trace knows no threads

    def __enter__(self) -> autocast:
        region = _region(self.device, self.fast_dtype if self._enabled else None, self._own_mode())
        region.__enter__()
        self._own.open.append(region)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._own.open.pop().__exit__(kind, error, trace)

    def __call__(self, func: _Function) -> _Function:
        """As a decorator: every call of ``func`` is a region."""
        if not callable(func):
            raise TypeError(
                f"autocast(...) was called with a {type(func).__name__}, expected a function to decorate; as a context "
                "manager it is written: with autocast(device_type): ..."
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            # A trace enters only regions that it has made itself.
            with self._anew() if torch.compiler.is_compiling() else self:
                return func(*args, **kwargs)

        return cast("_Function", decorated)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is open: a copy is in no region."""
        return {name: value for name, value in vars(self).items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._own = _OpenOnThread()

    def _anew(self) -> autocast:
        return autocast(self.device, self.fast_dtype, self._enabled)

    def _own_mode(self) -> FunctionMode | None:
        if not self._enabled or is_ruled():
            return None
        if torch.compiler.is_compiling():  # what a trace makes is of no use outside of it
            return FunctionMode(torch.device(self.device))
        if self._own.mode is None:
            self._own.mode = FunctionMode(torch.device(self.device))
        return self._own.mode


@contextmanager
def _region(device_type: str, dtype: torch.dtype | None, mode: FunctionMode | None) -> Generator[None]:
    with (
        torch.autocast(device_type, dtype=dtype, enabled=dtype is not None, cache_enabled=False),
        mode or nullcontext(),
    ):
        yield


class _Open:
    """What is open of one object, and the mode that it brings."""

    def __init__(self) -> None:
        self.open: list[AbstractContextManager[None]] = []
        self.mode: FunctionMode | None = None


class _OpenOnThread(_Open, threading.local):
    """That of each thread."""


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise TypeError(
            f"autocast: device_type is {device_type!r} ({type(device_type).__name__}), expected its name, such as "
            "'cuda' or 'cpu'; the signature of torch.cuda.amp is that of mixprec.compat.torch_cuda_amp"
        )
    if not torch.amp.is_autocast_available(device_type):
        raise RuntimeError(f"autocast: torch has no autocast for device_type {device_type!r}, expected 'cuda' or 'cpu'")


def _check_dtype(dtype: Any) -> None:
    if dtype in (*_16_BIT, torch.float32):
        return
    is_narrow = isinstance(dtype, str) or (isinstance(dtype, torch.dtype) and dtype.itemsize == 1)
    if is_narrow:
        raise ValueError(
            f"autocast: dtype is {dtype!r}, expected torch.bfloat16 or torch.float16: a region without conversion "
            "has 16 bits. Narrower formats belong to layers: convert the model beside it, "
            'mixprec.convert(model, "fp8"), and leave the region as it is (`mixprec recipes` lists the recipes)'
        )
    kind = ValueError if isinstance(dtype, torch.dtype) else TypeError
    raise kind(f"autocast: dtype is {dtype!r}, expected torch.bfloat16, torch.float16, or torch.float32 for none")
