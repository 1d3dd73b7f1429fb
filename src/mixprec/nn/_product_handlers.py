"""Products that a model calls as functions: in the casts that a rule gives them, else in the compute dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import _addmm, _contractions
from ._attention import AttentionArguments, attention
from ._convolution_calls import CONVOLUTIONS
from ._dtype_plumbing import Function, Handler, spelled
from ._einsum import einsum
from ._grouped import grouped_mm
from ._linear import linear
from ._parameter_views import parameter_of
from ._product_shapes import takes_shapes
from ._product_sites import is_castable, multiplied, product, refuse_transformed
from ._site import ConversionState
from ._sparse_products import sparse_product, takes_sparse
from ._telling import left_to_torch
from ._weights import GATHERS, gathered, kind_of

#: Arguments that fix where or in which dtype a result is wanted: such a call is left as it is, as autocast leaves it.
_OWN_RESULT = {"out", "out_dtype"}


def _linear(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, weight, bias = _linear_arguments(*args, **kwargs)
    if not is_castable(x, weight, bias):
        return left_to_torch(state, func, args, kwargs)
    if weight.dim() == 2:
        site = state.casts_of(kind_of(weight), tuple(weight.shape))
        if site is not None or state.is_16bit:
            return linear(x, weight, bias, site or state.functional)
    if not state.is_16bit:
        return left_to_torch(state, func, args, kwargs)
    y = multiplied(x, weight, "neither", state.functional)
    return y if bias is None else y + bias.to(y.dtype)


def _linear_arguments(
    input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    return input, weight, bias


def _matmul(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    if not _OWN_RESULT.isdisjoint(kwargs):
        return func(*args, **kwargs)
    named = dict(kwargs)  # the second operand's name differs: other, mat2, vec
    first = args[0] if args else named.pop("input")
    second = args[1] if len(args) > 1 else next(iter(named.values()))
    y = product(state, first, second) if takes_shapes(func, first, second) else None  # torch says what is wrong
    return left_to_torch(state, func, (first, second), {}) if y is None else y


def _matrix_vector(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """``mv`` and ``addmv`` as ``W @ x``; what torch's old hook finds a spectral norm with stays in fp32."""
    normed = () if state.is_16bit or state.functions is None else state.functions.normed
    if normed:
        given = [parameter_of(t) for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
        owned = [p for module in normed for p in module.parameters(recurse=False)]
        if any(p is t for p in owned for t in given):
            return left_to_torch(state, func, args, kwargs)
    return (_addmv if func in _ADDMV else _matmul)(state, func, args, kwargs)


def _rmatmul(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return _matmul(state, torch.matmul, (args[1], args[0]), {})


def _rule(rule: Callable[..., Tensor | None]) -> Handler:
    """Of a function whose own signature ``rule`` has behind the state; it gives ``None`` for what is left to torch."""

    def handle(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {name: value for name, value in kwargs.items() if value is not None}
        if not _OWN_RESULT.isdisjoint(given) or not (args and isinstance(args[0], Tensor)):
            return func(*args, **kwargs)  # torch's deprecated order puts numbers first
        y = rule(state, *args, **given)
        return left_to_torch(state, func, args, kwargs) if y is None else y

    return handle


def _einsum(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    y = einsum(state, args)
    return left_to_torch(state, func, args, kwargs) if y is None else y


def _chain(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    tensors = list(args[0]) if args and isinstance(args[0], (list, tuple)) else list(args)
    y = None if kwargs else _contractions.chain(state, tensors)
    return left_to_torch(state, func, args, kwargs) if y is None else y


def _attention(state: ConversionState, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    q, k, v, arguments = _attention_arguments(*args, **kwargs)
    qk, pv = state.casts_of("qk"), state.casts_of("pv")
    if is_castable(q, k, v):
        refuse_transformed(state, q, k, v)
    if not is_castable(q, k, v) or (qk is None and pv is None and not state.is_16bit):
        return left_to_torch(state, func, args, kwargs)
    return attention(q, k, v, arguments, state, qk=qk, pv=pv)


def _attention_arguments(
    query: Tensor, key: Tensor, value: Tensor, *positional: Any, **named: Any
) -> tuple[Tensor, Tensor, Tensor, AttentionArguments]:
    names = ("attn_mask", "dropout_p", "is_causal")
    return query, key, value, AttentionArguments(**dict(zip(names, positional, strict=False)), **named)


_ADDMV = frozenset(spelled("addmv", torch, torch.Tensor))
_addmv = _rule(_addmm.addmv)


def _table() -> Mapping[Function, Handler]:
    table: dict[Function, Handler] = {}
    groups: tuple[tuple[Handler, Iterable[Function]], ...] = (
        (_linear, [F.linear]),
        (_matmul, [*spelled("matmul mm bmm __matmul__", torch, torch.Tensor), torch.linalg.matmul]),
        (_matrix_vector, spelled("mv addmv", torch, torch.Tensor)),
        (_rmatmul, [torch.Tensor.__rmatmul__]),
        (_einsum, [torch.einsum]),
        (_rule(_addmm.addmm), spelled("addmm", torch, torch.Tensor)),
        (_rule(_addmm.addbmm), spelled("addbmm", torch, torch.Tensor)),
        (_rule(_addmm.baddbmm), spelled("baddbmm", torch, torch.Tensor)),
        (_rule(_contractions.tensordot), [torch.tensordot]),
        (_rule(_contractions.inner), spelled("inner", torch, torch.Tensor)),
        (_rule(grouped_mm), [*spelled("grouped_mm", F), *spelled("_grouped_mm", torch)]),
        (_chain, [torch.chain_matmul, torch.linalg.multi_dot]),
        (_attention, [F.scaled_dot_product_attention]),
        (gathered, GATHERS),
        (sparse_product, spelled("mm addmm", torch.sparse)),
    )
    for handler, functions in groups:
        table.update(dict.fromkeys(functions, handler))
    table.update(CONVOLUTIONS)
    return table


PRODUCTS: Mapping[Function, Handler] = _table()
#: Operators of libraries by their qualified names, since they exist only once the library has been imported.
OPERATORS: Mapping[str, Handler] = {"transformers::grouped_mm_fallback": _rule(grouped_mm)}


def product_handler(func: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Handler | None:
    """Who handles a call, if it is a product."""
    handler = PRODUCTS.get(func)
    if handler is not None and takes_sparse(args, kwargs):
        return sparse_product
    if handler is None and isinstance(func, torch._ops.OpOverloadPacket):  # pyright: ignore[reportPrivateUsage]
        return OPERATORS.get(func._qualified_op_name)  # pyright: ignore[reportPrivateUsage]
    return handler
