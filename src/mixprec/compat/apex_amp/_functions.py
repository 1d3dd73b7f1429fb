"""How a function of the user's own takes its tensors in a region of 16 bits; and what cannot be registered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NoReturn, TypeVar, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree  # torch's own; knows the classes that libraries register

_Function = TypeVar("_Function", bound=Callable[..., Any])
_16_BIT = (torch.float16, torch.bfloat16)


def float_function(fn: _Function) -> _Function:
    """A decorator: inside a region of 16 bits, tensors of 16 bits are fp32 for ``fn``, and what it computes is fp32.

    Example:
        >>> from mixprec.compat.torch_amp import autocast
        >>> square = float_function(lambda x: x @ x)
        >>> with autocast("cpu", torch.bfloat16):
        ...     square(torch.ones(2, 2, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return _cast_by(fn, lambda tensors, dtype: torch.float32, is_off=True)


def half_function(fn: _Function) -> _Function:
    """A decorator: inside a region of 16 bits, floating tensors have its dtype for ``fn``.

    Example:
        >>> from mixprec.compat.torch_amp import autocast
        >>> dtype = half_function(lambda x: x.dtype)
        >>> with autocast("cpu", torch.float16):
        ...     dtype(torch.ones(2))
        torch.float16
    """
    return _cast_by(fn, lambda tensors, dtype: dtype, is_off=False)


def promote_function(fn: _Function) -> _Function:
    """A decorator: inside a region of 16 bits, tensors of 16 bits and fp32 are fp32 for ``fn`` where they are mixed.

    Example:
        >>> from mixprec.compat.torch_amp import autocast
        >>> dtypes = promote_function(lambda x, y: (x.dtype, y.dtype))
        >>> with autocast("cpu", torch.bfloat16):
        ...     dtypes(torch.ones(2), torch.ones(2, dtype=torch.bfloat16))
        (torch.float32, torch.float32)
    """
    return _cast_by(fn, lambda tensors, dtype: _widest(tensors), is_off=False)


def disable_casts() -> AbstractContextManager[Any]:
    """Inside, functions are torch's own: a region of 16 bits around it is off.

    Example:
        >>> from mixprec.compat.torch_amp import autocast
        >>> with autocast("cpu"), disable_casts():
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
    """
    stack = ExitStack()
    for device_type in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device_type):
            stack.enter_context(torch.autocast(device_type, enabled=False))
    return stack


def register_float_function(module: object, name: str) -> NoReturn:
    """Refused: see ``register_half_function``."""
    _refuse("register_float_function", name, "float_function")


def register_half_function(module: object, name: str) -> NoReturn:
    """Refused: it would replace a function of another module for the whole process.

    Raises:
        NotImplementedError: always, with the decorator that does it for one function.
    """
    _refuse("register_half_function", name, "half_function")


def register_promote_function(module: object, name: str) -> NoReturn:
    """Refused: see ``register_half_function``."""
    _refuse("register_promote_function", name, "promote_function")


def _refuse(what: str, name: str, decorator: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: replacing {name} in its module would change it for the whole process, which mixprec never does: "
        f"decorate the function where it is defined, @amp.{decorator}, or call amp.{decorator}({name}) where it is "
        "used; torch's own functions follow mixprec's rules already (docs/compat.md)"
    )


def _cast_by(
    fn: _Function, choose: Callable[[list[Tensor], torch.dtype], torch.dtype | None], *, is_off: bool
) -> _Function:
    @functools.wraps(fn)
    def cast_function(*args: Any, **kwargs: Any) -> Any:
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if _is_cast(t)]
        device_type = tensors[0].device.type if tensors else "cpu"
        if not tensors or not torch.is_autocast_enabled(device_type):
            return fn(*args, **kwargs)
        dtype = choose(tensors, torch.get_autocast_dtype(device_type))
        args, kwargs = pytree.tree_map(lambda t: t.to(dtype) if _is_cast(t) and dtype else t, (args, kwargs))
        with torch.autocast(device_type, enabled=False) if is_off else ExitStack():
            return fn(*args, **kwargs)

    return cast("_Function", cast_function)


def _is_cast(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (*_16_BIT, torch.float32)


def _widest(tensors: list[Tensor]) -> torch.dtype | None:
    dtypes = {t.dtype for t in tensors}
    return torch.float32 if len(dtypes) > 1 else None
