"""What the device at hand multiplies natively, and whether that is faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import nn

from ..hardware import native_formats
from ._operand import FORMAT_OF_DTYPE

#: A native engine is taken when it is at least this much faster than the fp32 one: beyond timing noise.
_WORTHWHILE = 1.3


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters live; a model without any is taken to be on the CPU.

    Raises:
        ValueError: when they live on several kinds of device.
    """
    devices = {p.device for p in model.parameters()} | {b.device for b in model.buffers()}
    kinds = {d.type for d in devices} - {"meta"}
    if len(kinds) > 1:
        raise ValueError(
            f"the model's tensors are on {', '.join(sorted(kinds))}: expected one kind of device; move the model first"
        )
    return next((d for d in devices if d.type != "meta"), torch.device("cpu"))


def native_here(device: torch.device) -> tuple[str, ...]:
    """The formats that ``device`` multiplies natively and faster than fp32.

    A CUDA device is looked up by its compute capability. A CPU's matrix units (AMX) are used by oneDNN only if it
    was built and allowed to, so a CPU that has them is timed once: a product in bf16 against one in fp32.
    """
    if device.type == "cuda":
        return native_formats(
            "cuda", f"{torch.cuda.get_device_capability(device)[0]}.{torch.cuda.get_device_capability(device)[1]}"
        )
    if device.type == "cpu" and torch.cpu._is_amx_tile_supported():  # pyright: ignore[reportPrivateUsage]
        return ("bf16",) if _speed_ratio(torch.bfloat16) >= _WORTHWHILE else ()
    return ()


def native_compute(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether products of ``dtype`` are native on ``device``."""
    return dtype != torch.float32 and FORMAT_OF_DTYPE[dtype] in native_here(device)


@lru_cache
def _speed_ratio(dtype: torch.dtype) -> float:
    """How much faster a 512-cubed product is in ``dtype`` than in fp32: measured once a process, in about 10 ms."""
    a = torch.ones(512, 512)
    narrow = a.to(dtype)
    return _least_seconds(lambda: a @ a) / _least_seconds(lambda: narrow @ narrow)


def _least_seconds(product: Callable[[], object]) -> float:
    """The least of five runs, after one to warm up: what other work on the machine disturbs least."""
    times: list[float] = []
    for _ in range(6):
        start = time.perf_counter()
        product()
        times.append(time.perf_counter() - start)
    return min(times[1:])
