"""What a loop's gradients are: their norms, brought to the host in one transfer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels import gradient_squares


@dataclass(frozen=True)
class Norms:
    """Norms of gradients as they are, and the values of losses.

    Attributes:
        each: 2-norm by name; inf or NaN where an element is.
        total: of all.
        losses: in the order in which they were given.
        is_finite: whether all gradients are.
    """

    each: Mapping[str, float]
    total: float
    losses: tuple[float, ...]
    is_finite: bool


@torch.no_grad()
def norms_of(gradients: Mapping[str, Tensor], losses: Sequence[Tensor]) -> Norms:
    """Measure gradients of any floating dtype, dense, sparse or sharded (this rank's part); sums are fp64."""
    parts = {name: _dense(grad) for name, grad in gradients.items()}
    found = _on_the_host([*_norms(list(parts.values())), *(loss.detach().reshape(()) for loss in losses)])
    each = dict(zip(parts, found, strict=False))
    total = math.nan if any(map(math.isnan, each.values())) else math.hypot(*each.values())
    is_finite = all(map(math.isfinite, each.values()))
    return Norms(each, total, tuple(found[len(parts) :]), is_finite)


def _norms(parts: Sequence[Tensor]) -> list[Tensor]:
    """The norm of each, on its device."""
    norms: dict[int, Tensor] = {
        i: torch.linalg.vector_norm(part) for i, part in enumerate(parts) if part.dtype == torch.float64
    }
    for device in dict.fromkeys(part.device for part in parts):
        here = [i for i, part in enumerate(parts) if part.device == device and i not in norms]
        norms.update(zip(here, gradient_squares([parts[i] for i in here]).sqrt(), strict=True))
    return [norms[i] for i in range(len(parts))]


def _on_the_host(numbers: Sequence[Tensor]) -> list[float]:
    """0-d tensors as numbers, in one transfer from each device."""
    values: dict[int, float] = {}
    for device in dict.fromkeys(n.device for n in numbers):
        here = [i for i, n in enumerate(numbers) if n.device == device]
        values.update(zip(here, torch.stack([numbers[i].double() for i in here]).tolist(), strict=True))
    return [values[i] for i in range(len(numbers))]


def _dense(grad: Tensor) -> Tensor:
    if hasattr(grad, "to_local"):
        grad = grad.to_local()  # pyright: ignore[reportAttributeAccessIssue]
    grad = grad.coalesce().values() if grad.layout == torch.sparse_coo else grad
    return torch.view_as_real(grad) if grad.is_complex() else grad
