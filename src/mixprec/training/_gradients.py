"""The gradients of one step: unscaled, measured; dense, sparse, complex or sharded."""

# torch marks its multi-tensor functions private; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from ..distributed import local_values, total_squares
from ..kernels import gradient_squares

#: Between them an fp64 sum of squares of fp64 elements keeps its bits.
_TRUSTED_NORMS = (1e-140, 1e150)
_PLAIN = frozenset((torch.float32, torch.bfloat16, torch.float16))


@dataclass(frozen=True)
class Measured:
    """What one transfer from the device tells of a step.

    Attributes:
        norms: 2-norm of each gradient, of what this rank holds of it; inf or NaN where an element is.
        total: 2-norm of all of them, over all ranks of a sharded one.
        losses: value of each loss that was backpropagated.
    """

    norms: tuple[float, ...]
    total: float
    losses: tuple[float, ...]

    @property
    def is_finite(self) -> bool:
        """Whether every element of every gradient is finite."""
        return all(map(math.isfinite, self.norms))


@torch.no_grad()
def divide(params: Iterable[Tensor], scale: float) -> None:
    """Divide the gradients of ``params`` in place; exact for a power of two, but for results below the smallest."""
    if scale != 1.0:
        values = [_own_values(p) for p in params if p.grad is not None]
        if values:
            torch._foreach_div_(values, scale)


@torch.no_grad()
def measure(gradients: Sequence[Tensor], losses: Sequence[Tensor]) -> Measured:
    """Measure gradients with one transfer from the device; none is changed.

    Sums of squares are fp64. Those of fp64 elements that overflow or underflow are taken again around the largest
    element, so that a norm is inf or NaN only where an element is.
    """
    if _are_plain(gradients):
        return _measure_plain(gradients, losses)
    values = [_values(gradient) for gradient in gradients]
    parts = _squares(values)
    told = _transfer([*(vector for _, vector in parts), *(loss.reshape(1) for loss in losses)])
    order = [i for indices, _ in parts for i in indices]
    squares = [square for _, square in sorted(zip(order, told[: len(order)], strict=True))]
    norms = [math.sqrt(square) for square in squares]
    total = math.sqrt(total_squares(gradients, squares))
    wide = [i for i, v in enumerate(values) if v.dtype == torch.float64 and not _is_trusted(norms[i])]
    for i in wide:
        norms[i] = _careful_norm(values[i])
    return Measured(tuple(norms), _norm(norms) if wide else total, tuple(told[len(order) :]))


def _are_plain(gradients: Sequence[Tensor]) -> bool:
    """Whether all are dense real ones of 16 or 32 bits on one device, which is asked of all at once."""
    return (
        set(map(type, gradients)) == {Tensor}
        and {gradient.layout for gradient in gradients} == {torch.strided}
        and {gradient.dtype for gradient in gradients} <= _PLAIN
        and len({gradient.device for gradient in gradients}) == 1
    )


def _measure_plain(gradients: Sequence[Tensor], losses: Sequence[Tensor]) -> Measured:
    """As `measure`, without looking at each gradient by itself: for 150 small ones that takes longer than the sums."""
    told = _transfer([gradient_squares(gradients), *(loss.reshape(1) for loss in losses)])
    squares = told[: len(gradients)]
    return Measured(tuple(map(math.sqrt, squares)), math.sqrt(reduce(add, squares, 0.0)), tuple(told[len(gradients) :]))


def _squares(values: Sequence[Tensor]) -> list[tuple[list[int], Tensor]]:
    """Sums of squares as fp64 vectors, one for each device and for each fp64 tensor; with the tensors' positions."""
    devices: dict[torch.device, list[int]] = {}
    for i, value in enumerate(values):
        if value.dtype != torch.float64:
            devices.setdefault(value.device, []).append(i)
    narrow = [(indices, gradient_squares([values[i] for i in indices])) for indices in devices.values()]
    return narrow + [([i], v.square().sum().reshape(1)) for i, v in enumerate(values) if v.dtype == torch.float64]


def _is_trusted(norm: float) -> bool:
    return _TRUSTED_NORMS[0] < norm < _TRUSTED_NORMS[1]


def _values(gradient: Tensor) -> Tensor:
    """The elements of a gradient that this rank holds, as a real dense tensor.

    Of a sparse one those of the coalesced form: indices that occur twice are one element.
    """
    held = local_values(gradient)
    if held.layout == torch.sparse_coo:
        held = held.coalesce()._values()
    return torch.view_as_real(held) if held.is_complex() else held


def _own_values(param: Tensor) -> Tensor:
    """The elements of a parameter's gradient, sharing its memory; a sparse one is coalesced for it."""
    if param.grad is None:
        raise ValueError("a parameter without a gradient was asked for its gradient's values")
    if param.grad.layout == torch.sparse_coo:
        param.grad = param.grad.coalesce()
    return _values(param.grad)


def _transfer(vectors: Sequence[Tensor]) -> list[float]:
    """Bring 1-d tensors, of any device and dtype, to the host at once."""
    if not vectors:
        return []
    device = vectors[0].device
    return torch.cat([v.detach().to(device, torch.float64) for v in vectors]).tolist()


def _norm(norms: Sequence[float]) -> float:
    """The norm of norms; unlike ``math.hypot``, NaN wins over inf."""
    return math.nan if any(map(math.isnan, norms)) else math.hypot(*norms)


def _careful_norm(values: Tensor) -> float:
    """The 2-norm of a tensor by its largest element; finite wherever the elements are."""
    if values.numel() == 0:
        return 0.0
    largest = float(values.abs().max())  # NaN wins
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    # A power of two keeps the quotients exact; two steps, since its reciprocal may leave the range.
    exponent = math.frexp(largest)[1]
    scaled = torch.ldexp(values, torch.tensor(-(exponent // 2), device=values.device))
    scaled = torch.ldexp(scaled, torch.tensor(exponent // 2 - exponent, device=values.device))
    return math.ldexp(float(torch.linalg.vector_norm(scaled)), exponent)
