"""The gradients of one optimizer without their scale, checked in the same pass."""

# torch marks its multi-tensor functions private; its own scaler is made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor
from torch.optim import Optimizer

_16_BIT = (torch.float16, torch.bfloat16)
_Values = dict[tuple[torch.device, torch.dtype], list[Tensor]]


@torch.no_grad()
def unscale(
    optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, *, allow_fp16: bool, checks_result: bool
) -> dict[torch.device, Tensor]:
    """Multiply gradients in place, and see whether all are finite.

    Args:
        optimizer: whose parameters' gradients are meant: dense, sparse or complex, of any devices.
        inv_scale: by what, one fp32 number.
        found_inf: 0, fp32.
        allow_fp16: whether fp16 gradients are taken.
        checks_result: whether they may leave the range by it.

    Returns:
        For each device that holds gradients: 1 where an element is not finite, else ``found_inf``.

    Raises:
        ValueError: fp16 gradients.
    """
    found: dict[torch.device, Tensor] = {}
    for (device, _), values in _gradient_values(optimizer, allow_fp16).items():
        flag = found.setdefault(device, found_inf.to(device, copy=True))
        factor = inv_scale.to(device, non_blocking=True)
        torch._amp_foreach_non_finite_check_and_unscale_(values, flag, factor)
        if checks_result:
            torch._amp_foreach_non_finite_check_and_unscale_(values, flag, torch.ones_like(factor))
    return found


def _gradient_values(optimizer: Optimizer, allow_fp16: bool) -> _Values:
    grouped: _Values = defaultdict(list)
    for param in (p for group in optimizer.param_groups for p in group["params"]):
        if param.grad is None:
            continue
        if param.grad.dtype == torch.float16 and not allow_fp16:
            raise ValueError(
                f"Attempting to unscale FP16 gradients (of a parameter of shape {list(param.shape)}): what the scale "
                "has kept would be lost as it is taken out. Expected fp32 parameters, which the region casts itself: "
                "leave out model.half(); for 16-bit weights with fp32 masters take mixprec.prepare, or "
                "mixprec.compat.apex_amp with opt_level='O2'"
            )
        if param.grad.is_sparse and param.grad.dtype in _16_BIT:
            param.grad = param.grad.coalesce()  # an index that occurs twice is one element, which may overflow
        values = param.grad._values() if param.grad.is_sparse else param.grad
        values = torch.view_as_real(values) if values.is_complex() else values
        grouped[values.device, values.dtype].append(values)
    return grouped
