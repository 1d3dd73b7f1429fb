"""What a 16-bit compute dtype does to each function that is no product: fp32 operations, additions, constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..formats import get_format
from ..formats import round as round_scalar
from ._dtype_plumbing import PLUMBING, Function, Handler, in_fp32, spelled
from ._narrow_sums import narrow_sum
from ._operand import FORMAT_OF_DTYPE
from ._product_sites import is_castable
from ._ranges import leaves_fp16, sum_leaves_fp16, widened
from ._recurrent import narrowed, recurrent, rounded
from ._rules import decompositions, fp32_functions
from ._site import ConversionState
from ._telling import compute_dtype_call, plain

_16_BIT = (torch.float16, torch.bfloat16)


def _wide(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Operands rounded to the compute dtype, the function itself in fp32, the result rounded once; or all natively.

    torch's autocast knows no ``bilinear`` on the CPU, whose kernel takes one dtype: operands are cast here.
    """
    if not is_castable(*_floating(args), *_floating(tuple(kwargs.values()))):
        return func(*args, **kwargs)
    if state.native_compute:
        native = narrowed(args, state), {k: narrowed(v, state) for k, v in kwargs.items()}
        with torch.autocast(state.device_type, enabled=False), compute_dtype_call(state, rounded=False):
            return func(*native[0], **native[1])
    with torch.autocast(state.device_type, enabled=False), compute_dtype_call(state, rounded=True):
        y = func(*(rounded(a, state) for a in args), **{k: rounded(v, state) for k, v in kwargs.items()})
    return tuple(t.to(state.compute_dtype) for t in y) if isinstance(y, tuple) else y.to(state.compute_dtype)


def _decomposition(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In fp32 as the recipe wants it, the matrix products inside too."""
    arguments = tuple(widened(a) for a in args), {name: widened(v) for name, v in kwargs.items()}
    with torch.autocast(state.device_type, enabled=False):
        return plain(state, func, *arguments)


def _floating(values: tuple[Any, ...]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())]


def _recurrent(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not is_castable(*_floating(args)):
        return func(*args, **kwargs)
    return recurrent(func, args, kwargs, state)


def _normalization(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Statistics in fp32, the result in the input's dtype, on every device."""
    x = args[0] if args else kwargs["input"]
    if state.device_type == "cpu" and func is not F.rms_norm and func is not torch.rms_norm:
        return func(*args, **kwargs)  # the CPU's kernels do just that for a 16-bit input with fp32 parameters
    with torch.autocast(state.device_type, enabled=False):
        return in_fp32(state, func, args, kwargs).to(x.dtype)


def _embedding(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    y = func(*args, **kwargs)
    return y.to(state.compute_dtype) if state.residual_16bit else y


def _addition(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keeps a 16-bit residual stream; keeps masks and small constants from vanishing in fp16."""
    if len(args) != 2 or "out" in kwargs:
        return func(*args, **kwargs)
    a, b = args
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if (
            state.residual_16bit
            and {a.dtype, b.dtype} == {torch.float32, state.compute_dtype}
            and min(a.dim(), b.dim())
        ):
            if state.compute_dtype == torch.float16:
                return narrow_sum(func, a, b, kwargs)
            return func(a.to(state.compute_dtype), b.to(state.compute_dtype), **kwargs)
        if sum_leaves_fp16(a, b, residual_16bit=state.residual_16bit):
            return func(a.float(), b.float(), **kwargs)
        if a.dtype == b.dtype == torch.float16:
            return narrow_sum(func, a, b, kwargs)
    elif leaves_fp16(b if isinstance(a, Tensor) else a, a if isinstance(a, Tensor) else b):
        return func(widened(a), widened(b), **kwargs)
    return func(*args, **kwargs)


def _fill(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``masked_fill`` and ``where`` with a constant that fp16 cannot hold."""
    values = (*args, *kwargs.values())
    tensors = [v for v in values if isinstance(v, Tensor) and v.dtype == torch.float16]
    if tensors and any(leaves_fp16(v, tensors[0]) for v in values):
        return in_fp32(state, func, args, kwargs)
    return func(*args, **kwargs)


def _clamp(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In fp32 where a bound (1 - 1e-6) is not a value of the compute dtype."""
    x = args[0] if args else kwargs["input"]
    bounds = [v for v in (*args[1:], *kwargs.values()) if isinstance(v, (int, float))]
    if x.dtype in _16_BIT:
        grid = get_format(FORMAT_OF_DTYPE[x.dtype])
        if any(abs(v) != float("inf") and round_scalar(grid, float(v)) != v for v in bounds):
            return in_fp32(state, func, args, kwargs)
    return func(*args, **kwargs)


def _join(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """``cat`` and ``stack`` keep a 16-bit residual stream."""
    tensors = args[0] if args else kwargs.get("tensors")
    if state.residual_16bit and isinstance(tensors, (list, tuple)):
        dtype = state.compute_dtype
        if {t.dtype for t in tensors if isinstance(t, Tensor)} == {torch.float32, dtype}:
            return func(
                [t.to(dtype) for t in tensors], *args[1:], **{k: v for k, v in kwargs.items() if k != "tensors"}
            )
    return func(*args, **kwargs)


def _table() -> Mapping[Function, Handler]:
    table: dict[Function, Handler] = dict.fromkeys(fp32_functions(), in_fp32)
    table.update(dict.fromkeys(decompositions(), _decomposition))
    # Whose gradients multiply matrices.
    table.update(dict.fromkeys([*spelled("cdist addr", torch, torch.Tensor), F.affine_grid], _decomposition))
    groups: tuple[tuple[Handler, Iterable[Function]], ...] = (
        (_wide, [*spelled("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", torch), F.bilinear]),
        (_recurrent, spelled("lstm gru rnn_tanh rnn_relu", torch)),
        (_normalization, spelled("layer_norm group_norm rms_norm", F, torch)),
        (_embedding, [F.embedding]),
        (_addition, spelled("add sub __add__ __radd__ __sub__ __rsub__ rsub", torch, torch.Tensor)),
        (_fill, [*spelled("masked_fill where nan_to_num", torch, torch.Tensor), F.pad]),
        (_clamp, spelled("clamp clip clamp_min clamp_max", torch, torch.Tensor)),
        (_join, spelled("cat concat concatenate stack", torch)),
    )
    for handler, functions in groups:
        table.update(dict.fromkeys(functions, handler))
    table.update(PLUMBING)
    return table


HANDLERS: Mapping[Function, Handler] = _table()
