"""The registered element formats, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._catalog import CATALOG
from ._format import Format
from ._generic import exmy, unknown_format

_registered: dict[str, Format] = {fmt.name: fmt for fmt in CATALOG}

FORMATS: Mapping[str, Format] = MappingProxyType(_registered)
"""Every registered format by name, in catalog order; a read-only view that follows ``register``."""


def register(fmt: Format) -> Format:
    """Add a format under its name, for good; call it at import.

    Args:
        fmt: the format.

    Returns:
        The format itself.

    Raises:
        ValueError: another format has the name.

    Example:
        >>> register(get_format("e4m3")) is get_format("e4m3")    # the same again is no change
        True
    """
    if _registered.setdefault(fmt.name, fmt) != fmt:
        raise ValueError(f"a different format '{fmt.name}' is registered already: give the new one another name")
    return _registered[fmt.name]


def get_format(name: str) -> Format:
    """Look up a format.

    Args:
        name: a registered name, or a generic ``e<2..8>m<1..23>``, which follows IEEE 754's rules (an
            infinity, NaNs, bias ``2**(e - 1) - 1``). A registered name comes first: ``e4m3`` is the
            format with largest value 448, not the IEEE one with 240.

    Returns:
        The format.

    Raises:
        ValueError: nobody registered the name and it is not generic.

    Example:
        >>> get_format("e4m3").max_value, get_format("e5m6").max_value
        (448.0, 65024.0)
    """
    fmt = _registered.get(name) or exmy(name)
    if fmt is None:
        raise unknown_format(name, _registered)
    return fmt
