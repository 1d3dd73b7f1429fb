"""Hardware as the text of its TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...hardware import Figure, Hardware, Measured

_FIGURES = ("memory", "bandwidth", "link", "network", "launch")


def dump_hardware(hardware: Hardware) -> str:
    """Write hardware; ``load_hardware`` reads it back to the same.

    Example:
        >>> from mixprec.hardware import find
        >>> print(dump_hardware(find("t4")).splitlines()[0])
        name = "t4"
    """
    import tomlkit

    document: dict[str, Any] = {"name": hardware.name, "title": hardware.title, "kind": hardware.kind}
    if hardware.capability is not None:
        document["capability"] = hardware.capability
    document["is_validated"] = hardware.is_validated
    if hardware.price_per_hour is not None:
        document["price_per_hour"] = hardware.price_per_hour
    if hardware.block_formats:
        document["block_formats"] = list(hardware.block_formats)
    for name in _FIGURES:
        figure: Figure | None = getattr(hardware, name)
        if figure is not None:
            document[name] = vars(figure)
    for name, figures in (("rates", hardware.rates), ("attainable", hardware.attainable)):
        if figures:
            document[name] = {key: vars(figure) for key, figure in figures.items()}
    if hardware.measured is not None:
        document["measured"] = _measured(hardware.measured)
    return tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]


def _measured(measured: Measured) -> Mapping[str, Any]:
    return {
        "machine": measured.machine,
        "threads": measured.threads,
        "torch": measured.torch,
        "call": measured.call,
        "cold": measured.cold,
        "reference": measured.reference,
        "operators": {name: [list(point) for point in curve.points] for name, curve in measured.operators.items()},
        "casts": {name: vars(cost) for name, cost in measured.casts.items()},
        "products": {
            name: {"m": list(grid.m), "n": list(grid.n), "k": list(grid.k), "seconds": list(grid.seconds)}
            for name, grid in measured.products.items()
        },
    }
