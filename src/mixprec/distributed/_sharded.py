"""Gradients of which each rank holds a part: their local values and their common norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether it is a ``DTensor``; those are known by torch only once somebody has made one."""
    if type(tensor) is Tensor or not dist.is_available():
        return False
    from torch.distributed.tensor import DTensor  # takes a while to import, and few processes need it

    return isinstance(tensor, DTensor)


def local_values(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor, sharing its memory.

    Example:
        >>> local_values(torch.ones(2))
        tensor([1., 1.])
    """
    if not is_sharded(tensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()


def total_squares(gradients: Sequence[Tensor], squares: Sequence[float]) -> float:
    """The sum of squares of all gradients, where each rank knows those of its own parts.

    One all-reduce for every mesh and set of its dimensions over which gradients are sharded; none where none is.

    Args:
        gradients: plain tensors, whose squares count as they are, and ``DTensor`` s.
        squares: of what this rank holds of each.

    Returns:
        The same number on all ranks of the meshes, where the plain gradients are the same.

    Raises:
        ValueError: a gradient that is a partial sum.

    Example:
        >>> total_squares([torch.ones(2), torch.ones(1)], [2.0, 1.0])
        3.0
    """
    total = 0.0
    parts: dict[tuple[DeviceMesh, tuple[int, ...]], list[float]] = {}
    for gradient, square in zip(gradients, squares, strict=True):
        if is_sharded(gradient):
            key = (gradient.device_mesh, _sharded_dimensions(gradient))
            parts.setdefault(key, []).append(square)
        else:
            total += square
    return total + sum(_over_mesh(mesh, dimensions, sum(found)) for (mesh, dimensions), found in parts.items())


def _sharded_dimensions(gradient: DTensor) -> tuple[int, ...]:
    placements = gradient.placements
    if not all(placement.is_shard() or placement.is_replicate() for placement in placements):
        raise ValueError(
            f"step: a gradient of shape {list(gradient.shape)} is laid out as {placements}: its norm is known of "
            "shards and replicas only; redistribute partial sums before session.step"
        )
    return tuple(i for i, placement in enumerate(placements) if placement.is_shard())


def _over_mesh(mesh: DeviceMesh, dimensions: Sequence[int], square: float) -> float:
    for dimension in dimensions:
        group = mesh.get_group(dimension)
        told = torch.tensor(square, dtype=torch.float64, device=mesh.device_type)
        dist.all_reduce(told, dist.ReduceOp.SUM, group=group)
        square = float(told)
    return square
