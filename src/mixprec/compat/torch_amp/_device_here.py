"""Where code that was written for CUDA runs on a machine without it."""

from __future__ import annotations

import warnings

import torch


def device_here(device_type: str) -> str:
    """The device type that stands for ``device_type`` here: the CPU for CUDA, where there is no CUDA."""
    return "cpu" if device_type == "cuda" and not torch.cuda.is_available() else device_type


def tell_device(device_type: str, what: str) -> None:
    """Warn where the CPU stands for CUDA.

    Warns:
        UserWarning: saying what for.
    """
    if device_here(device_type) != device_type:
        warnings.warn(
            f"{what}: CUDA is not available here, the CPU stands for it; say device_type='cpu' to mean it",
            stacklevel=3,
        )
