"""Products that a model calls as functions: in the casts that a rule gives them, else in the compute dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._addmm import addbmm, addmm, addmv, baddbmm
from ._attention import AttentionArguments, attention
from ._convolution_calls import CONVOLUTIONS
from ._dtype_plumbing import Function, Handler, spelled
from ._einsum import einsum
from ._linear import linear
from ._matmul import matmul
from ._plain_calls import plain
from ._site import ConversionState, Site

#: Arguments that fix where or in which dtype a result is wanted: such a call is left as it is, as autocast leaves it.
_OWN_RESULT = {"out", "out_dtype"}


def _is_castable(*tensors: Any) -> bool:
    """Whether these are floating tensors of torch's own class: quantized and other classes multiply by themselves."""
    kinds = (Tensor, nn.Parameter)
    return all(t is None or (type(t) in kinds and t.is_floating_point()) for t in tensors)


def _linear(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, weight, bias = _linear_arguments(*args, **kwargs)
    if weight.dim() == 2 and _is_castable(x, weight, bias):
        site = state.casts_of("Linear", tuple(weight.shape))
        if site is not None or state.is_16bit:
            return linear(x, weight, bias, site or state.functional)
    if not state.is_16bit:
        return plain(state, func, args, kwargs)
    if weight.dim() == 2:
        return func(*args, **kwargs)
    y = matmul(x, weight, state.functional)
    return y if bias is None else y + bias.to(y.dtype)


def _linear_arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    return input, weight, bias


def _matmul(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    if not _OWN_RESULT.isdisjoint(kwargs):
        return func(*args, **kwargs)
    named = dict(kwargs)  # the second operand's name differs: other, mat2, vec
    first = args[0] if args else named.pop("input")
    return _product(state, func, (first, args[1] if len(args) > 1 else next(iter(named.values()))))


def _rmatmul(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return _product(state, torch.matmul, (args[1], args[0]))


def _product(state: ConversionState, func: Function, operands: tuple[Tensor, Tensor]) -> Tensor:
    a, b = operands
    if _is_castable(a, b) and a.dim() > 0 and b.dim() > 0:
        site = product_site(state, a, b)
        if site is not None and isinstance(b, nn.Parameter) and b.dim() == 2 and a.dim() > 1:
            return linear(a, b.t(), None, site)
        if site is not None or state.is_16bit:
            return matmul(a, b, site or state.functional)
    return func(a, b) if state.is_16bit else plain(state, func, operands, {})


def product_site(state: ConversionState, a: Tensor, b: Tensor) -> Site | None:
    """The site of ``a @ b``: a layer's where ``b`` is a parameter (of one matrix, or of one for each expert)."""
    if isinstance(b, nn.Parameter) and b.dim() > 1:
        kind = "Linear" if b.dim() == 2 else "grouped_mm"
        return state.casts_of(kind, (b.shape[-1], b.shape[-2]))
    return state.casts_of("matmul") if min(a.dim(), b.dim()) > 1 else None


def _plus_product(rule: Callable[..., Tensor]) -> Handler:
    """Of a product plus a tensor, whose own signature ``rule`` has behind the state."""

    def handle(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _OWN_RESULT.isdisjoint(kwargs) or not (args and isinstance(args[0], Tensor)):
            return func(*args, **kwargs)  # torch's deprecated order puts numbers first
        operands = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        site = product_site(state, operands[-2], operands[-1]) if _is_castable(*operands) else None
        if site is None and not state.is_16bit:
            return plain(state, func, args, kwargs)
        return rule(site or state.functional, *args, **kwargs)

    return handle


def _einsum(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    operands = [value for value in args[1:] if isinstance(value, Tensor)]
    site = product_site(state, *operands) if len(operands) == 2 and _is_castable(*operands) else None
    if site is None and not state.is_16bit:
        return plain(state, func, args, kwargs)
    return einsum(args, site or state.functional)


def _attention(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    q, k, v, arguments = _attention_arguments(*args, **kwargs)
    qk, pv = state.casts_of("qk"), state.casts_of("pv")
    if qk is None and pv is None and not state.is_16bit:
        return plain(state, func, args, kwargs)
    return attention(q, k, v, arguments, state, qk=qk, pv=pv)


def _attention_arguments(
    query: Tensor, key: Tensor, value: Tensor, *positional: Any, **named: Any
) -> tuple[Tensor, Tensor, Tensor, AttentionArguments]:
    names = ("attn_mask", "dropout_p", "is_causal")
    return query, key, value, AttentionArguments(**dict(zip(names, positional, strict=False)), **named)


def _table() -> Mapping[Function, Handler]:
    table: dict[Function, Handler] = {}
    groups: tuple[tuple[Handler, Iterable[Function]], ...] = (
        (_linear, [F.linear]),
        (_matmul, [*spelled("matmul mm bmm mv __matmul__", torch, torch.Tensor), torch.linalg.matmul]),
        (_rmatmul, [torch.Tensor.__rmatmul__]),
        (_einsum, [torch.einsum]),
        (_plus_product(addmm), spelled("addmm", torch, torch.Tensor)),
        (_plus_product(addmv), spelled("addmv", torch, torch.Tensor)),
        (_plus_product(addbmm), spelled("addbmm", torch, torch.Tensor)),
        (_plus_product(baddbmm), spelled("baddbmm", torch, torch.Tensor)),
        (_attention, [F.scaled_dot_product_attention]),
    )
    for handler, functions in groups:
        table.update(dict.fromkeys(functions, handler))
    table.update(CONVOLUTIONS)
    return table


PRODUCTS: Mapping[Function, Handler] = _table()
