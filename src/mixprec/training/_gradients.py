"""The gradients of one step: unscaled, measured, clipped; dense, sparse or complex."""

# torch marks its multi-tensor functions private; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: Below it an fp32 sum of squares has lost bits to underflow.
_SMALLEST_TRUSTED_NORM = 1e-12


@dataclass(frozen=True)
class Measured:
    """What one transfer from the device tells of a step.

    Attributes:
        norms: 2-norm of each gradient; inf or NaN where an element is.
        total: 2-norm of all of them.
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
def multiply(params: Iterable[Tensor], factor: float) -> None:
    """Multiply the gradients of ``params`` in place."""
    values = [gradient_values(p) for p in params if p.grad is not None]
    if values and factor != 1.0:
        torch._foreach_mul_(values, factor)


@torch.no_grad()
def divide(params: Iterable[Tensor], scale: float) -> None:
    """Divide the gradients of ``params`` in place; exact for a power of two, but for results below the smallest."""
    values = [gradient_values(p) for p in params if p.grad is not None]
    if values and scale != 1.0:
        torch._foreach_div_(values, scale)


@torch.no_grad()
def measure(params: Sequence[Tensor], losses: Sequence[Tensor]) -> Measured:
    """Measure the gradients of ``params``, each of which has one, with one transfer from the device.

    Norms are fp32 sums of squares; where those overflow or underflow they are taken again around the largest
    element, so that a norm is inf or NaN only where an element is.
    """
    values = [gradient_values(p) for p in params]
    norms: list[Tensor] = list(torch._foreach_norm(values, 2, dtype=torch.float32)) if _all_narrow(values) else []
    norms = norms or [torch.linalg.vector_norm(v, dtype=_wide(v)) for v in values]
    told = _transfer([*norms, *losses])
    found, lost = told[: len(norms)], told[len(norms) :]
    total = _norm(found)
    if not _SMALLEST_TRUSTED_NORM < total < math.inf:
        found = [_careful_norm(v) for v in values]
        total = _norm(found)
    return Measured(tuple(found), total, tuple(lost))


def gradient_values(param: Tensor) -> Tensor:
    """The elements of a gradient as a real dense tensor that shares its memory.

    A sparse gradient is coalesced first: indices that occur twice are one element.
    """
    grad = param.grad
    if grad is None:
        raise ValueError("a parameter without a gradient was asked for its gradient's values")
    if grad.layout == torch.sparse_coo:
        grad = param.grad = grad.coalesce()
        grad = grad._values()
    return torch.view_as_real(grad) if grad.is_complex() else grad


def _all_narrow(values: Sequence[Tensor]) -> bool:
    return all(v.dtype != torch.float64 for v in values)


def _wide(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def _transfer(scalars: Sequence[Tensor]) -> list[float]:
    """Bring 0-d tensors, of any device and dtype, to the host at once."""
    device = scalars[0].device
    wide = torch.float64 if any(s.dtype == torch.float64 for s in scalars) else torch.float32
    return torch.stack([s.detach().reshape(()).to(device, wide) for s in scalars]).tolist()


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
    scaled = torch.ldexp(values.to(_wide(values)), torch.tensor(-(exponent // 2), device=values.device))
    scaled = torch.ldexp(scaled, torch.tensor(exponent // 2 - exponent, device=values.device))
    return math.ldexp(float(torch.linalg.vector_norm(scaled)), exponent)
