"""Which formats a device's matrix units take, by its capability.

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (tensor core types by capability); NVIDIA Ada and
Hopper tuning guides (FP8 from 8.9); Intel 64 and IA-32 Architectures Software Developer's Manual, AMX-BF16.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Formats by the lowest CUDA compute capability that multiplies them with fp32 sums and that mixprec's engines use.
CUDA_FORMATS: Mapping[tuple[int, int], tuple[str, ...]] = MappingProxyType(
    {(7, 0): ("fp16",), (8, 0): ("bf16",), (8, 9): ("fp8",)}
)


def native_formats(device_type: str, capability: str) -> tuple[str, ...]:
    """The formats below fp32 that a device multiplies natively.

    Args:
        device_type: ``"cuda"``; other types have none here and are measured instead.
        capability: CUDA compute capability, e.g. ``"9.0"``.

    Example:
        >>> native_formats("cuda", "8.0")
        ('fp16', 'bf16')
    """
    if device_type != "cuda":
        return ()
    major, _, minor = capability.partition(".")
    have = (int(major), int(minor or 0))
    return tuple(name for lowest, names in CUDA_FORMATS.items() if lowest <= have for name in names)
