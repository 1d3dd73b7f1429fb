"""FLOPs of the operators that multiply matrices, those inside fused kernels included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from ..kernels import narrow_product

_Arguments = tuple[Any, ...]
_Counter = Callable[[_Arguments], int]


def flops_of(func: Any, args: _Arguments, kwargs: dict[str, Any], out: Any) -> int | None:
    """FLOPs of an operator that multiplies matrices (a multiply-add is two); ``None`` for any other.

    Args:
        func: an overload, as a dispatch mode sees it.
        args: its arguments.
        kwargs: its named arguments.
        out: its result.
    """
    packet = getattr(func, "_overloadpacket", None)
    if packet is torch.ops.aten.convolution:
        return _convolution(args[0], args[1], out, args[6])
    own = _COUNTERS.get(packet) or _BY_NAME.get(str(packet))
    if own is not None:
        return own(args)
    counter: Callable[..., int] | None = flop_registry.get(packet)
    return None if counter is None else counter(*args, **kwargs, out_val=out)


def _convolution(x: Tensor, weight: Tensor, y: Tensor, transposed: bool) -> int:
    """Every weight meets each position once; torch counts the gradient of a grouped weight ``groups`` times."""
    positions = math.prod((x if transposed else y).shape[2:])
    return 2 * x.shape[0] * positions * weight.numel()


def _convolution_backward(args: _Arguments) -> int:
    grad, x, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
    return (bool(mask[0]) + bool(mask[1])) * _convolution(x, weight, grad, transposed)


def _flash(args: _Arguments) -> int:
    q, k, v = args[:3]
    return 2 * math.prod(q.shape[:3]) * k.shape[2] * (q.shape[3] + v.shape[3])


def _flash_backward(args: _Arguments) -> int:
    # Five products: the scores again, then the gradients of v, the scores, q and k.
    q, k, v = args[1:4]
    return 2 * math.prod(q.shape[:3]) * k.shape[2] * (3 * q.shape[3] + 2 * v.shape[3])


def _recurrent(args: _Arguments) -> int:
    """Of a fused recurrent layer: every weight matrix multiplies every token once."""
    x = args[0]
    given: list[Tensor] = list(args[1]) if isinstance(args[1], (list, tuple)) else list(args[1:3])
    return 2 * math.prod(x.shape[:-1]) * sum(w.numel() for w in given if w.dim() > 1)


def _trilinear(args: _Arguments) -> int:
    operands, expanded = args[:3], args[3:6]
    shapes: list[list[int]] = []
    for operand, dims in zip(operands, expanded, strict=True):
        shape = list(operand.shape)
        for dim in sorted(dims):
            shape.insert(dim, 1)
        shapes.append(shape)
    return 2 * math.prod(max(sizes) for sizes in zip(*shapes, strict=True))


def _matrix_vector(args: _Arguments) -> int:
    return 2 * args[0].numel()


def _sum_of_products(args: _Arguments) -> int:
    return 2 * args[1].numel() * args[2].shape[-1]


def _grouped(args: _Arguments) -> int:
    a, b = args[:2]
    groups = a.shape[0] if a.dim() == b.dim() == 3 else 1
    return 2 * groups * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _product(args: _Arguments) -> int:
    return 2 * args[0].numel() * args[1].shape[-1]


def _distances(args: _Arguments) -> int:
    return 2 * args[0].numel() * args[1].shape[-2]


def _packet_of(name: str) -> Any:
    """One of the kernels' own operators; importing them has registered it."""
    return getattr(torch.ops.mixprec, name)


def _table() -> Mapping[Any, _Counter]:
    aten = torch.ops.aten

    def twice(counter: _Counter) -> _Counter:
        return lambda args: 2 * counter(args)

    return {
        aten.convolution_backward: _convolution_backward,
        aten._scaled_dot_product_flash_attention_for_cpu: _flash,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_backward,
        aten.mkldnn_rnn_layer: _recurrent,
        aten.mkldnn_rnn_layer_backward: twice(_recurrent),  # gradients of the operands, and of the weights
        aten._cudnn_rnn: _recurrent,
        aten._cudnn_rnn_backward: twice(_recurrent),
        aten._trilinear: _trilinear,
        aten.mv: _matrix_vector,
        aten.addmv: lambda args: _matrix_vector(args[1:]),
        aten.addbmm: _sum_of_products,
        aten._grouped_mm: _grouped,
        aten._euclidean_dist: _distances,
        _packet_of(narrow_product.__name__): _product,
    }


_COUNTERS: Mapping[Any, _Counter] = _table()
#: Operators of libraries, which exist only once the library has been imported.
_BY_NAME: Mapping[str, _Counter] = {
    "transformers.grouped_mm_fallback": _grouped,
    "transformers.grouped_mm_fallback_backward": lambda args: 2 * _grouped(args),
}
