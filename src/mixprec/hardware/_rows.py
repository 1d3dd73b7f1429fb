"""How the catalog writes its figures: in the units that data sheets use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._figure import Figure

#: Block formats whose scales the matrix units of NVIDIA's Blackwell and of AMD's CDNA 4 apply.
MX_BLOCKS = ("mxfp8", "mxfp6", "mxfp6-e2m3", "mxfp6-e3m2", "mxfp4")
BLACKWELL_BLOCKS = (*MX_BLOCKS, "nvfp4")


def tera(source: str, **rates: float) -> Mapping[str, Figure]:
    """Rates in TFLOP/s (int8: TOP/s) that one document tells.

    Example:
        >>> tera("a sheet", bf16=312)["bf16"].value
        312000000000000.0
    """
    return MappingProxyType({name: Figure(rate * 1e12, source) for name, rate in rates.items()})


def shares(source: str, **of_peak: float) -> Mapping[str, Figure]:
    """Attainable shares of the peak that one document tells."""
    return MappingProxyType({name: Figure(share, source) for name, share in of_peak.items()})


def giga(value: float, source: str) -> Figure:
    """A figure in GB or GB/s (1e9)."""
    return Figure(value * 1e9, source)


def mebi(value: float, source: str) -> Figure:
    """A figure in MiB (2**20), in which drivers report a memory that sheets call GB.

    Example:
        >>> mebi(24576, "a driver").value == 24 * 2**30
        True
    """
    return Figure(value * 2**20, f"{source}: {value} MiB")


#: What drivers report of several cards of NVIDIA's data center.
REPORTED = "nvidia-smi, in github.com/modal-labs/modal-client pull request 2797"
#: One way, of sixteen lanes: 8, 16 and 32 GT/s, of 128 bits 130 sent.
PCIE_3 = giga(15.75, "PCI Express Base Specification 3.0: 16 lanes of 8 GT/s, 128b/130b")
PCIE_4 = giga(31.5, "PCI Express Base Specification 4.0: 16 lanes of 16 GT/s, 128b/130b")
PCIE_5 = giga(63.0, "PCI Express Base Specification 5.0: 16 lanes of 32 GT/s, 128b/130b")
