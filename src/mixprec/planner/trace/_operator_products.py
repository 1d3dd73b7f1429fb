"""The matrix products of one operator: their shapes, and which of its tensors they multiply."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...kernels import narrow_product
from ...nn import flops_of

_Arguments = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class OperatorProduct:
    """``[M, K] @ [K, N]``, ``batch`` times, as one operator runs it.

    Attributes:
        gemm: what it is, where the operator says so; else its operands tell.
        part: ``"qk"`` or ``"pv"`` in an attention kernel.
        batch: products.
        m: rows of the result.
        n: its columns.
        k: length of the reduction.
        left: the tensor that the left operand lies in.
        right: likewise.
    """

    gemm: str | None = None
    part: str = ""
    batch: int = 1
    m: int
    n: int
    k: int
    left: Tensor
    right: Tensor

    @property
    def flops(self) -> int:
        """A multiply-add is two."""
        return 2 * self.batch * self.m * self.n * self.k


_Reader = Callable[[_Arguments, Any], list[OperatorProduct]]


def products_of(func: Any, args: _Arguments, kwargs: dict[str, Any], out: Any) -> list[OperatorProduct] | None:
    """The products of an operator, whose FLOPs are those that an audit counts; ``None``: it multiplies no matrices.

    Of an operator whose parts are not known all FLOPs are one product of that many rows.

    Args:
        func: an overload, as a dispatch mode sees it.
        args: its arguments.
        kwargs: its named arguments.
        out: its result.
    """
    flops = flops_of(func, args, kwargs, out)
    if not flops:
        return None if flops is None else []
    packet = func._overloadpacket
    reader = _READERS.get(packet) or _BY_NAME.get(str(packet))
    if reader is not None:
        return reader(args, out)
    tensors = [a for a in args if isinstance(a, Tensor)]
    return [OperatorProduct(gemm=packet.__name__, m=flops // 2, n=1, k=1, left=tensors[0], right=tensors[-1])]


def _matrices(first: int) -> _Reader:
    """Of ``[..., M, K]`` and ``[..., K, N]`` at two places; a vector on the right is one column."""

    def read(args: _Arguments, out: Any) -> list[OperatorProduct]:
        a, b = args[first], args[first + 1]
        n = 1 if b.dim() == 1 else b.shape[-1]
        batch = math.prod(a.shape[:-2])
        return [OperatorProduct(batch=batch, m=a.shape[-2], n=n, k=a.shape[-1], left=a, right=b)]

    return read


def _summed(args: _Arguments, out: Any) -> list[OperatorProduct]:
    a, b = args[1], args[2]
    return [OperatorProduct(batch=a.shape[0], m=a.shape[1], n=b.shape[2], k=a.shape[2], left=a, right=b)]


def _grouped(args: _Arguments, out: Any) -> list[OperatorProduct]:
    """Each row meets the matrix of its group; where the reduction is split into groups, each part of it one."""
    a, b = args[:2]
    batch = a.shape[0] if a.dim() == b.dim() == 3 else 1
    return [OperatorProduct(batch=batch, m=a.shape[-2], n=b.shape[-1], k=a.shape[-1], left=a, right=b)]


def _convolution(args: _Arguments, out: Any) -> list[OperatorProduct]:
    x, weight, transposed, groups = args[0], args[1], args[6], args[8]
    rows, inner, outer = _lowered(x, weight, x if transposed else out, groups)
    m, n, k = (rows, inner, outer) if transposed else (rows, outer, inner)
    return [OperatorProduct(gemm="fprop", batch=groups, m=m, n=n, k=k, left=x, right=weight)]


def _convolution_backward(args: _Arguments, out: Any) -> list[OperatorProduct]:
    grad, x, weight, transposed, groups, mask = args[0], args[1], args[2], args[7], args[9], args[10]
    rows, inner, outer = _lowered(x, weight, x if transposed else grad, groups)
    narrow, wide = (inner, outer) if transposed else (outer, inner)  # features of the gradient, of the input
    found: list[OperatorProduct] = []
    if mask[0]:
        found.append(OperatorProduct(gemm="dgrad", batch=groups, m=rows, n=wide, k=narrow, left=grad, right=weight))
    if mask[1]:
        found.append(OperatorProduct(gemm="wgrad", batch=groups, m=narrow, n=wide, k=rows, left=grad, right=x))
    return found


def _lowered(x: Tensor, weight: Tensor, at: Tensor, groups: int) -> tuple[int, int, int]:
    """Positions that the weight is laid at, and the weight of one group as a matrix: (rows, columns, outer)."""
    outer = weight.shape[0] // groups
    return x.shape[0] * math.prod(at.shape[2:]), weight.numel() // weight.shape[0], outer


def _attention(args: _Arguments, out: Any) -> list[OperatorProduct]:
    q, k, v = args[:3]
    batch, t, s, e, ev = _attention_sizes(q, k, v)
    return [
        OperatorProduct(gemm="fprop", part="qk", batch=batch, m=t, n=s, k=e, left=q, right=k),
        OperatorProduct(gemm="fprop", part="pv", batch=batch, m=t, n=ev, k=s, left=q, right=v),
    ]


def _attention_backward(args: _Arguments, out: Any) -> list[OperatorProduct]:
    """The scores once more, for they are not kept; then two gradients of each product."""
    grad, q, k, v = args[:4]
    batch, t, s, e, ev = _attention_sizes(q, k, v)
    return [
        OperatorProduct(gemm="fprop", part="qk", batch=batch, m=t, n=s, k=e, left=q, right=k),
        OperatorProduct(gemm="dgrad", part="pv", batch=batch, m=t, n=s, k=ev, left=grad, right=v),
        OperatorProduct(gemm="wgrad", part="pv", batch=batch, m=s, n=ev, k=t, left=q, right=grad),
        OperatorProduct(gemm="dgrad", part="qk", batch=batch, m=t, n=e, k=s, left=q, right=k),
        OperatorProduct(gemm="wgrad", part="qk", batch=batch, m=s, n=e, k=t, left=q, right=q),
    ]


def _attention_sizes(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int, int, int, int]:
    return math.prod(q.shape[:-2]), q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]


def _recurrent(args: _Arguments, out: Any) -> list[OperatorProduct]:
    """The input's weight meets all steps at once, the state's one step after the other: as one product of all."""
    x, rows = args[0], math.prod(args[0].shape[:-1])
    return [
        OperatorProduct(gemm="fprop", m=rows, n=w.shape[0], k=w.shape[1], left=x, right=w)
        for w in _recurrent_weights(args)
    ]


def _recurrent_backward(args: _Arguments, out: Any) -> list[OperatorProduct]:
    x, rows = args[0], math.prod(args[0].shape[:-1])
    found: list[OperatorProduct] = []
    for w in _recurrent_weights(args):
        found.append(OperatorProduct(gemm="dgrad", m=rows, n=w.shape[1], k=w.shape[0], left=x, right=w))
        found.append(OperatorProduct(gemm="wgrad", m=w.shape[0], n=w.shape[1], k=rows, left=x, right=x))
    return found


def _recurrent_weights(args: _Arguments) -> list[Tensor]:
    given: list[Tensor] = list(args[1]) if isinstance(args[1], (list, tuple)) else list(args[1:3])
    return [w for w in given if w.dim() > 1]


def _table() -> Mapping[Any, _Reader]:
    aten = torch.ops.aten
    fused = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
    forward = {getattr(aten, f"_scaled_dot_product_{name}"): _attention for name in fused}
    backward = {getattr(aten, f"_scaled_dot_product_{name}_backward"): _attention_backward for name in fused}
    return {
        **dict.fromkeys((aten.mm, aten.bmm, aten.mv), _matrices(0)),
        **dict.fromkeys((aten.addmm, aten.baddbmm, aten.addmv), _matrices(1)),
        getattr(torch.ops.mixprec, narrow_product.__name__): _matrices(0),
        aten.addbmm: _summed,
        aten._grouped_mm: _grouped,
        aten.convolution: _convolution,
        aten.convolution_backward: _convolution_backward,
        aten.mkldnn_rnn_layer: _recurrent,
        aten.mkldnn_rnn_layer_backward: _recurrent_backward,
        aten._cudnn_rnn: _recurrent,
        aten._cudnn_rnn_backward: _recurrent_backward,
        **forward,
        **backward,
    }


_READERS: Mapping[Any, _Reader] = _table()
#: Operators of libraries, which exist only once the library has been imported.
_BY_NAME: Mapping[str, _Reader] = {"transformers.grouped_mm_fallback": _grouped}
