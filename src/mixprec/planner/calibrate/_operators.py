"""Seconds of operators that multiply no matrices, by the bytes that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from ...hardware import Curve
from ._stopwatch import Stopwatch

_WIDTH = 64
_BACKWARD = torch.ops.aten
#: Makes a call on x [rows, 64], and tells the bytes that it reads and writes.
Operator = Callable[[Tensor], tuple[Callable[[], object], int]]


def operator_curves(watch: Stopwatch, rows: tuple[int, ...]) -> dict[str, Curve]:
    """Seconds of a call by bytes read and written, for each family.

    Args:
        watch: measures.
        rows: of 64 numbers, that the operators get, rising.
    """
    return {name: _curve(watch, operator, rows) for name, operator in _OPERATORS.items()}


def rising(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Points of a curve, of which noise has made none fall with the size.

    Example:
        >>> rising([(1, 2.0), (2, 1.5), (4, 3.0)])
        ((1.0, 2.0), (2.0, 2.0), (4.0, 3.0))
    """
    most = 0.0
    found: list[tuple[float, float]] = []
    for size, seconds in points:
        most = max(most, seconds)
        found.append((float(size), most))
    return tuple(found)


def _curve(watch: Stopwatch, operator: Operator, rows: tuple[int, ...]) -> Curve:
    points: list[tuple[float, float]] = []
    for count in rows:
        call, moved = operator(torch.randn(count, _WIDTH))
        points.append((moved, watch.seconds(call)[0]))
    return Curve(rising(points))


def _elementwise(x: Tensor) -> tuple[Callable[[], object], int]:
    y = torch.ones_like(x)
    return lambda: x + y, 3 * x.nbytes


def _copy(x: Tensor) -> tuple[Callable[[], object], int]:
    """Heads and positions change places, which is what most copies within a step are for."""
    turned = x.view(len(x) // 16, 16, 4, _WIDTH // 4).transpose(1, 2)
    return lambda: turned.clone(memory_format=torch.contiguous_format), 2 * x.nbytes


def _layer_norm(x: Tensor) -> tuple[Callable[[], object], int]:
    weight, bias = torch.ones(_WIDTH), torch.zeros(_WIDTH)
    return lambda: torch.native_layer_norm(x, [_WIDTH], weight, bias, 1e-5), 2 * x.nbytes


def _layer_norm_backward(x: Tensor) -> tuple[Callable[[], object], int]:
    weight, bias = torch.ones(_WIDTH), torch.zeros(_WIDTH)
    _, mean, rstd = torch.native_layer_norm(x, [_WIDTH], weight, bias, 1e-5)
    operator = _BACKWARD.native_layer_norm_backward.default
    return lambda: operator(x, x, [_WIDTH], mean, rstd, weight, bias, [True, True, True]), 3 * x.nbytes


def _batch_norm(x: Tensor) -> tuple[Callable[[], object], int]:
    images, (weight, bias) = _images(x), _affine()
    return lambda: torch.native_batch_norm(images, weight, bias, bias, weight, True, 0.1, 1e-5), 2 * x.nbytes


def _batch_norm_backward(x: Tensor) -> tuple[Callable[[], object], int]:
    images, (weight, bias) = _images(x), _affine()
    _, mean, invstd = torch.native_batch_norm(images, weight, bias, bias, weight, True, 0.1, 1e-5)
    operator = _BACKWARD.native_batch_norm_backward.default
    mask = [True, True, True]
    return lambda: operator(images, images, weight, bias, weight, mean, invstd, True, 1e-5, mask), 3 * x.nbytes


def _softmax(x: Tensor) -> tuple[Callable[[], object], int]:
    return lambda: torch.log_softmax(x, 1), 2 * x.nbytes


def _softmax_backward(x: Tensor) -> tuple[Callable[[], object], int]:
    operator = _BACKWARD._log_softmax_backward_data.default
    return lambda: operator(x, x, 1, torch.float32), 3 * x.nbytes


def _gelu(x: Tensor) -> tuple[Callable[[], object], int]:
    return lambda: F.gelu(x), 2 * x.nbytes


def _gelu_backward(x: Tensor) -> tuple[Callable[[], object], int]:
    operator = _BACKWARD.gelu_backward.default
    return lambda: operator(x, x), 3 * x.nbytes


def _embedding(x: Tensor) -> tuple[Callable[[], object], int]:
    ids, table = torch.arange(len(x)) % 64, torch.ones(64, _WIDTH)
    return lambda: F.embedding(ids, table), 2 * x.nbytes


def _embedding_backward(x: Tensor) -> tuple[Callable[[], object], int]:
    ids = torch.arange(len(x)) % 64
    operator = _BACKWARD.embedding_dense_backward.default
    return lambda: operator(x, ids, 64, -1, False), x.nbytes + 64 * _WIDTH * 4


def _pool(x: Tensor) -> tuple[Callable[[], object], int]:
    images = x.view(-1, 1, 8, 8)
    return lambda: F.avg_pool2d(images, 2), x.nbytes + x.nbytes // 4


def _reduce(x: Tensor) -> tuple[Callable[[], object], int]:
    return lambda: x.sum(0), x.nbytes


def _update(x: Tensor) -> tuple[Callable[[], object], int]:
    y, z = torch.ones_like(x), torch.ones_like(x)
    return lambda: x.addcdiv_(y, z, value=-1e-6), 4 * x.nbytes


def _fill(x: Tensor) -> tuple[Callable[[], object], int]:
    return lambda: torch.ones_like(x), 2 * x.nbytes


def _images(x: Tensor) -> Tensor:
    return x.view(-1, 16, 8, 8) if len(x) >= 16 else x.view(1, -1, 8, 8).expand(1, 16, 8, 8).contiguous()


def _affine() -> tuple[Tensor, Tensor]:
    return torch.ones(16), torch.zeros(16)


_OPERATORS: dict[str, Operator] = {
    "elementwise": _elementwise,
    "copy": _copy,
    "layer_norm": _layer_norm,
    "layer_norm backward": _layer_norm_backward,
    "batch_norm": _batch_norm,
    "batch_norm backward": _batch_norm_backward,
    "softmax": _softmax,
    "softmax backward": _softmax_backward,
    "gelu": _gelu,
    "gelu backward": _gelu_backward,
    "embedding": _embedding,
    "embedding backward": _embedding_backward,
    "pool": _pool,
    "reduce": _reduce,
    "update": _update,
    "fill": _fill,
}
