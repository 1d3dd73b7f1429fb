"""The devices that mixprec knows, by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

from ._amd import AMD
from ._data_center import DATA_CENTER
from ._geforce import GEFORCE
from ._hardware import Hardware
from ._hopper_blackwell import HOPPER_BLACKWELL
from ._tpu import TPU

CATALOG: Mapping[str, Hardware] = MappingProxyType(
    {device.name: device for device in (*DATA_CENTER, *GEFORCE, *HOPPER_BLACKWELL, *AMD, *TPU)}
)

#: Other names, without spaces, dashes and capitals.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "a100": "a100-80gb",
        "a10040": "a100-40gb",
        "a10080": "a100-80gb",
        "h100": "h100-sxm",
        "h100sxm5": "h100-sxm",
        "h200sxm": "h200",
        "b200sxm": "b200",
        "b300sxm": "b300",
        "blackwellultra": "b300",
        "v100sxm2": "v100",
        "3060": "rtx3060",
        "rtx306012gb": "rtx3060",
        "3090": "rtx3090",
        "4090": "rtx4090",
        "5090": "rtx5090",
        "v4": "tpu-v4",
        "v5e": "tpu-v5e",
        "v5litepod": "tpu-v5e",
        "v5p": "tpu-v5p",
        "v6e": "tpu-v6e",
        "trillium": "tpu-v6e",
    }
)
_MAKERS = re.compile(r"^(nvidia|amd|google)?(geforce|instinct|tesla|cloud)?")


def names() -> tuple[str, ...]:
    """The names of the catalog, in its order.

    Example:
        >>> "h100-sxm" in names()
        True
    """
    return tuple(CATALOG)


def find(name: str) -> Hardware:
    """Give a device of the catalog.

    Args:
        name: of the catalog, or another that people use: capitals, spaces and dashes do not matter, nor the maker.

    Raises:
        ValueError: no device is called that; the message offers close names.

    Example:
        >>> find("NVIDIA GeForce RTX 4090").name, find("4090").name, find("A100 80GB").name
        ('rtx4090', 'rtx4090', 'a100-80gb')
    """
    short = _MAKERS.sub("", _plain(name))
    by_plain = {_plain(known): known for known in CATALOG} | dict(ALIASES)
    if short in by_plain:
        return CATALOG[by_plain[short]]
    near = difflib.get_close_matches(short, by_plain, n=3, cutoff=0.6)
    offers = list(dict.fromkeys(by_plain[match] for match in near))
    offer = f"; did you mean {' or '.join(repr(match) for match in offers)}?" if offers else ""
    raise ValueError(
        f"unknown hardware '{name}': expected one of {', '.join(CATALOG)}, or a TOML file (name.toml){offer}"
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", name.strip().lower())
