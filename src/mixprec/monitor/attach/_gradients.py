"""What a loop's gradients are: their norms, brought to the host in one transfer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


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
    """Measure gradients of any floating dtype, dense, sparse or sharded (this rank's part).

    Sums are fp32; a norm that leaves its range is taken again in fp64.
    """
    parts = {name: _dense(grad) for name, grad in gradients.items()}
    found = _numbers(list(parts.values()), list(losses))
    each = dict(zip(parts, found, strict=False))
    for name, norm in each.items():
        if not math.isfinite(norm):
            each[name] = torch.linalg.vector_norm(parts[name], dtype=torch.float64).item()
    total = math.sqrt(math.fsum(n * n for n in each.values() if not math.isnan(n)))
    total = math.nan if any(map(math.isnan, each.values())) else total
    is_finite = all(map(math.isfinite, each.values()))
    return Norms(each, total, tuple(found[len(parts) :]), is_finite)


def _numbers(parts: Sequence[Tensor], losses: Sequence[Tensor]) -> list[float]:
    """Norms, then losses, on the host."""
    norms = [torch.linalg.vector_norm(part, dtype=_wide(part)) for part in parts]
    numbers = [n.double() for n in (*norms, *(loss.detach().reshape(()) for loss in losses))]
    values: dict[int, float] = {}
    for device in dict.fromkeys(n.device for n in numbers):
        here = [i for i, n in enumerate(numbers) if n.device == device]
        values.update(zip(here, torch.stack([numbers[i] for i in here]).tolist(), strict=True))
    return [values[i] for i in range(len(numbers))]


def _wide(part: Tensor) -> torch.dtype:
    return torch.float64 if part.dtype == torch.float64 else torch.float32


def _dense(grad: Tensor) -> Tensor:
    if hasattr(grad, "to_local"):
        grad = grad.to_local()  # pyright: ignore[reportAttributeAccessIssue]
    return grad.coalesce().values() if grad.layout == torch.sparse_coo else grad
