"""A device as a plan sees it: how fast it multiplies each format, moves bytes and starts kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from ._figure import Figure
from ._measured import Measured

Kind = Literal["gpu", "tpu", "cpu"]

#: The formats that a rate is told for, widest first.
RATES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")

#: Block formats by the rate that their elements need.
BLOCK_RATES: Mapping[str, str] = MappingProxyType(
    {
        "mxfp8": "fp8",
        "mxfp6": "fp6",
        "mxfp6-e2m3": "fp6",
        "mxfp6-e3m2": "fp6",
        "mxfp4": "fp4",
        "nvfp4": "fp4",
        "mxint8": "int8",
    }
)
_ELEMENT_RATES = {"e4m3": "fp8", "e5m2": "fp8", "e2m3": "fp6", "e3m2": "fp6", "e2m1": "fp4"}


def _no_figures() -> Mapping[str, Figure]:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One device, with a source for every figure; what no source vouches for is absent.

    Attributes:
        name: what it is found by, e.g. ``"h100-sxm"``.
        title: what the vendor calls it.
        kind: ``"gpu"``, ``"tpu"`` or ``"cpu"``.
        capability: CUDA compute capability, e.g. ``"9.0"``; ``None`` for what is no CUDA device.
        memory: of the device [B].
        bandwidth: of that memory, reading and writing together [B/s].
        rates: dense products with fp32 sums [FLOP/s], by ``"fp32"``, ``"tf32"``, ``"bf16"``, ``"fp16"``, ``"fp8"``,
            ``"fp6"``, ``"fp4"`` and ``"int8"`` (int32 sums). Never with 2:4 sparsity, never with fp16 sums.
        block_formats: block-scaled formats whose scales the matrix units apply, e.g. ``"mxfp8"``.
        attainable: share of the peak that large products reach, by format; of memory, by ``"bandwidth"``.
        link: from a device to the others of its node, one way, all lanes together [B/s].
        network: from a device to other nodes, one way [B/s].
        launch: what starting a kernel costs [s].
        price_per_hour: of one device, in the user's currency; never shipped.
        is_validated: whether predictions for it were compared with measurements on it.
        measured: details that only a measured machine has.

    Raises:
        ValueError: an unknown kind or format, a share above 1, or a price below 0.

    Example:
        >>> from mixprec.hardware import find
        >>> h100 = find("h100")
        >>> round(h100.rate_of("fp8").value / h100.rate_of("bf16").value, 2)
        2.0
        >>> h100.rate_of("mxfp8") is None  # the units apply no block scales
        True
    """

    name: str
    title: str
    kind: Kind
    capability: str | None = None
    memory: Figure | None = None
    bandwidth: Figure | None = None
    rates: Mapping[str, Figure] = field(default_factory=_no_figures)
    block_formats: tuple[str, ...] = ()
    attainable: Mapping[str, Figure] = field(default_factory=_no_figures)
    link: Figure | None = None
    network: Figure | None = None
    launch: Figure | None = None
    price_per_hour: float | None = None
    is_validated: bool = False
    measured: Measured | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"{self.name}: kind is '{self.kind}', expected one of {', '.join(get_args(Kind))}")
        known = {"rates": RATES, "block_formats": tuple(BLOCK_RATES), "attainable": (*RATES, "bandwidth")}
        for label, names in known.items():
            for name in getattr(self, label):
                if name not in names:
                    raise ValueError(f"{self.name}: {label} has '{name}', expected one of {', '.join(names)}")
        for name, share in self.attainable.items():
            if share.value > 1:
                raise ValueError(f"{self.name}: attainable share of {name} is {share.value:g}, expected at most 1")
        price = self.price_per_hour
        if price is not None and not (math.isfinite(price) and price >= 0):
            raise ValueError(f"{self.name}: price_per_hour is {price!r}, expected a number of at least 0")

    def rate_of(self, format_name: str) -> Figure | None:
        """The peak of native products of a format [FLOP/s]; ``None`` where the device does not multiply it.

        Args:
            format_name: a key of ``rates``, an element (``"e4m3"``) or a block format (``"mxfp8"``), which also needs
                units that apply its scales.
        """
        if format_name in BLOCK_RATES:
            return self.rates.get(BLOCK_RATES[format_name]) if format_name in self.block_formats else None
        return self.rates.get(_ELEMENT_RATES.get(format_name, format_name))

    def share_of(self, format_name: str) -> Figure | None:
        """The share of the peak that large products of a format reach, where a source tells it."""
        key = BLOCK_RATES.get(format_name, _ELEMENT_RATES.get(format_name, format_name))
        return self.attainable.get(key)

    @property
    def native_formats(self) -> tuple[str, ...]:
        """The formats below fp32 that it multiplies natively, widest first, block formats last."""
        return (*(name for name in RATES if name in self.rates and name != "fp32"), *self.block_formats)
