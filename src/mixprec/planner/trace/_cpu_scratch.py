"""What torch's kernels allocate on a CPU for themselves, and give back before they return.

A tensor without values does not show it. Measured with torch 2.13's profiler: oneDNN's convolutions copy their operands
to a layout of their own, operands of another dtype than the result's are copied to it whole, and norms copy what is not
contiguous. What other operators take is a few kilobytes for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._recurrent_workspace import scratch_bytes
from ._traffic import tensors_in

_Arguments = tuple[Any, ...]
#: Channels of a block in oneDNN's layouts; an input with fewer keeps its layout.
_BLOCK = 8


def cpu_scratch(func: Any, args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
    """Bytes that an operator takes beside its results while it runs on a CPU.

    Args:
        func: an overload, as a dispatch mode sees it.
        args: its arguments.
        kwargs: its named arguments.
        out: its result.
    """
    counter = _COUNTERS.get(func._overloadpacket)
    if counter is not None:
        return counter(args, kwargs, out)
    return _promoted(args, out) if torch.Tag.pointwise in func.tags else 0


def _promoted(args: _Arguments, out: Any) -> int:
    """Copies of operands that have another dtype than the one that is computed in."""
    operands = [t for t in tensors_in(args) if t.is_floating_point() and t.dim()]
    if len({t.dtype for t in operands}) < 2:
        return 0
    wide = max(t.element_size() for t in operands)
    return sum(t.numel() * wide for t in operands if t.element_size() != wide)


def _convolution(args: _Arguments, kwargs: dict[str, Any], out: Tensor) -> int:
    x, weight = args[0], args[1]
    if x.dtype != torch.float32:
        return max(out.numel() * 4, x.nbytes + out.nbytes)
    return (x.nbytes if x.shape[1] >= _BLOCK else out.nbytes) + weight.nbytes


def _convolution_backward(args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
    grad, x, mask = args[0], args[1], args[10]
    if x.dtype != torch.float32:
        return x.numel() * 4
    if x.shape[1] < _BLOCK:
        return grad.nbytes
    return x.nbytes + (max(x.nbytes, grad.nbytes) if mask[0] else grad.nbytes)


def _batch_norm_backward(args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
    return args[1].nbytes


def _uneven(count: int) -> Callable[[_Arguments, dict[str, Any], Any], int]:
    """Copies of those of the first operands that are not contiguous."""

    def copies(args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
        return sum(t.nbytes for t in args[:count] if not t.is_contiguous())

    return copies


def _sum(args: _Arguments, kwargs: dict[str, Any], out: Tensor) -> int:
    x = args[0]
    return 0 if x.dtype == out.dtype else x.numel() * out.element_size()


def _recurrent(args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
    return scratch_bytes(args, is_backward=False)


def _recurrent_backward(args: _Arguments, kwargs: dict[str, Any], out: Any) -> int:
    gradients = [t for t in args[10:13] if isinstance(t, Tensor)]
    copies = sum(t.nbytes for t in gradients if not t.is_contiguous())
    return scratch_bytes(args, is_backward=True) + copies


def _table() -> Mapping[Any, Callable[[_Arguments, dict[str, Any], Any], int]]:
    aten = torch.ops.aten
    return {
        aten.convolution: _convolution,
        aten.convolution_backward: _convolution_backward,
        aten.native_batch_norm_backward: _batch_norm_backward,
        aten.native_layer_norm: _uneven(1),
        aten.native_layer_norm_backward: _uneven(2),
        aten.embedding_dense_backward: _uneven(1),
        aten.sum: _sum,
        aten.mkldnn_rnn_layer: _recurrent,
        aten.mkldnn_rnn_layer_backward: _recurrent_backward,
    }


_COUNTERS = _table()
