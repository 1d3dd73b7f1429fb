"""Gradients without their scale, checked in the same pass; by torch's own kernel."""

# torch marks its multi-tensor functions private; its own scaler is made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor


def coalesced(gradient: Tensor) -> Tensor:
    """A gradient whose values can be scaled one by one: in a sparse one, an index that occurs twice is one element."""
    return gradient.coalesce() if gradient.is_sparse else gradient


@torch.no_grad()
def unscale(
    gradients: Iterable[Tensor], inv_scale: Tensor, found_inf: Tensor, *, checks_result: bool
) -> dict[torch.device, Tensor]:
    """Multiply gradients in place, and see whether all are finite.

    Args:
        gradients: dense, sparse or complex, of any devices.
        inv_scale: by what, one fp32 number.
        found_inf: 0, fp32.
        checks_result: whether they may leave the range by it.

    Returns:
        For each device that holds gradients: 1 where an element is not finite, else ``found_inf``.
    """
    grouped: dict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for gradient in gradients:
        values = gradient._values() if gradient.is_sparse else gradient
        values = torch.view_as_real(values) if values.is_complex() else values
        grouped[values.device, values.dtype].append(values)
    found: dict[torch.device, Tensor] = {}
    for (device, _), values in grouped.items():
        flag = found.setdefault(device, found_inf.to(device, copy=True))
        factor = inv_scale.to(device, non_blocking=True)
        torch._amp_foreach_non_finite_check_and_unscale_(values, flag, factor)
        if checks_result:
            torch._amp_foreach_non_finite_check_and_unscale_(values, flag, torch.ones_like(factor))
    return found
