"""What ``torch.cuda.amp`` takes; where there is no CUDA, the CPU stands for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.distributed as dist

from .. import torch_amp


class autocast(torch_amp.autocast):
    """``torch.cuda.amp.autocast``: ``mixprec.compat.torch_amp.autocast("cuda", ...)``, fp16 unless told otherwise.

    Args:
        enabled: whether the rules hold.
        dtype: ``torch.float16`` or ``torch.bfloat16``.
        cache_enabled: taken and not needed.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # the CPU stands for CUDA here
        ...     region = autocast(dtype=torch.bfloat16)
        >>> region.fast_dtype
        torch.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch_amp.GradScaler):
    """``torch.cuda.amp.GradScaler``: ``mixprec.compat.torch_amp.GradScaler("cuda", ...)``.

    Args:
        init_scale: the first scale.
        growth_factor: at growth, above 1.
        backoff_factor: after a step that was skipped, between 0 and 1.
        growth_interval: applied steps from one change to growth.
        enabled: whether losses are scaled at all.
        process_group: the ranks that agree on a skipped step.

    Example:
        >>> GradScaler(enabled=False).get_scale()
        1.0
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        *,
        process_group: dist.ProcessGroup | Literal["default"] | None = "default",
    ) -> None:
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled, process_group=process_group
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """``torch.cuda.amp.custom_fwd``: see ``mixprec.compat.torch_amp.custom_fwd``."""
    return torch_amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """``torch.cuda.amp.custom_bwd``: see ``mixprec.compat.torch_amp.custom_bwd``."""
    return torch_amp.custom_bwd(bwd, device_type="cuda")
