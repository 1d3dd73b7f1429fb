"""In what a product is multiplied on a device, given its casts: natively, or emulated in a wider carrier.

What block formats the matrix units scale, and the multiples of 16 (32 for MX blocks) that they ask of a product's
sizes: PyTorch, ``torch._scaled_mm``; PTX ISA, ``mma`` with block scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...hardware import Hardware
from ...specs import Cast

_MX = {"e4m3": "mxfp8", "e5m2": "mxfp8", "e2m3": "mxfp6-e2m3", "e3m2": "mxfp6-e3m2", "e2m1": "mxfp4", "int8": "mxint8"}
_SOFTWARE_BLOCKS = ("e4m3", "e5m2")
_SIXTEEN_BITS = ("bf16", "fp16")
_WIDE = ("fp32", *_SIXTEEN_BITS)


@dataclass(frozen=True)
class Engine:
    """How a product runs.

    Attributes:
        format: that its operands have; of an emulated product, what they stand for.
        rate: the key of the device's rate.
        is_native: whether the device multiplies that format.
        reason: of an emulated product.
    """

    format: str
    rate: str
    is_native: bool
    reason: str = ""


def native_name(cast: Cast) -> str | None:
    """What matrix units call the format of a cast; ``None`` where none multiplies it.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> [native_name(parse_cast(text)) for text in ("mxfp4 sr", "e4m3[tensor]", "nvfp4-2d", "e3m4[tensor]")]
        ['mxfp4', 'e4m3', 'nvfp4', None]
    """
    granularity = cast.granularity
    if cast.element in _WIDE:
        return cast.element if granularity.kind == "none" else None
    if granularity.kind != "block":
        return cast.element if cast.element in _MX else None
    if cast.scale == "e8m0" and granularity.reduction == 32 and granularity.outer in (1, 32):
        return _MX.get(cast.element)
    if cast.element == "e2m1" and cast.scale == "e4m3" and granularity.reduction == 16:
        return "nvfp4"
    # Blocks of 128 are scaled in software between native FP8 products (arXiv:2412.19437, section 3.3).
    return cast.element if cast.element in _SOFTWARE_BLOCKS and granularity.reduction % 128 == 0 else None


def engine_of(
    casts: tuple[Cast | None, Cast | None], compute: str, hardware: Hardware, sizes: tuple[int, int]
) -> Engine:
    """How a product of two operands runs.

    Args:
        casts: of the left and the right operand; ``None`` leaves one in the compute dtype.
        compute: the compute dtype, in which an emulated product is multiplied.
        hardware: the device.
        sizes: (N, K).

    Raises:
        ValueError: the device has no rate that could carry the product.
    """
    left, right = casts
    if left is None and right is None:
        return _plain(compute, hardware)
    names = [compute if cast is None else native_name(cast) for cast in casts]
    told = " x ".join(dict.fromkeys(name or str(cast) for name, cast in zip(names, casts, strict=True)))
    reason = _refusal([name for name in names if name], None in names, hardware, sizes)
    if not reason:
        slowest = min((name for name in names if name), key=lambda name: _rate(hardware, name))
        return Engine(told, slowest, is_native=True)
    carrier = _plain(compute, hardware)
    return Engine(told, carrier.rate, is_native=False, reason=reason)


def _plain(compute: str, hardware: Hardware) -> Engine:
    if hardware.rate_of(compute) is not None:
        return Engine(compute, compute, is_native=True)
    if hardware.rate_of("fp32") is not None:
        return Engine(compute, "fp32", is_native=False, reason=f"{hardware.name} does not multiply {compute}")
    known = ", ".join(hardware.native_formats) or "none"
    raise ValueError(
        f"{hardware.name} has no rate of {compute} products and none of fp32 that could carry them: its formats are "
        f"{known}; choose a recipe that computes in one of these, or give the rate in a TOML file"
    )


def _refusal(names: list[str], is_strange: bool, hardware: Hardware, sizes: tuple[int, int]) -> str:
    """Why the device does not multiply these formats as they are; empty if it does."""
    if is_strange:
        return "no device multiplies this format"
    for name in names:
        if hardware.rate_of(name) is None:
            return f"{hardware.name} does not multiply {name}"
    if len({name in _WIDE for name in names}) > 1 or len(set(names) & {"int8"}) != int(set(names) == {"int8"}):
        return f"no device multiplies {' with '.join(names)}"
    narrow = [name for name in names if name not in _WIDE]
    multiple = 32 if any(name.startswith("mx") for name in narrow) else 16
    n, k = sizes
    if narrow and (k % multiple or n % 16):
        return f"units take sizes in multiples of {multiple}, this product is N = {n}, K = {k}"
    return ""


def _rate(hardware: Hardware, name: str) -> float:
    rate = hardware.rate_of(name)
    return float("inf") if rate is None else rate.value
