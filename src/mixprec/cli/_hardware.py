"""``mixprec hardware``: what is known of the machines that estimates and plans are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixprec.records import NOTHING

from ._named_hardware import named_hardware
from ._print import print_table

if TYPE_CHECKING:
    from mixprec.hardware import Figure, Hardware

_TERA, _GIGA = 1e12, 1e9
_RATES = ("fp32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")


def command(name: str | None = None, /) -> int:
    """Show the hardware that `mixprec estimate` and `mixprec plan` know, with the source of every figure.

    Rates are of dense products with fp32 sums [TFLOP/s]. A figure that no source vouches for is not there. Your own
    hardware is a TOML file; `mixprec calibrate` writes one of this machine.

    For example: `mixprec hardware`, `mixprec hardware rtx4090`, `mixprec hardware this-machine.toml`

    Args:
        name: a device (`h100`, `rtx4090`), or a TOML file. Default: all of them.
    """
    from mixprec.hardware import find, names

    if name is None:
        _print_all([find(known) for known in names()])
    else:
        _print_one(named_hardware(name))
    return 0


def _print_all(devices: list[Hardware]) -> None:
    rows = [
        [
            one.name,
            _scaled(one.memory, _GIGA),
            _scaled(one.bandwidth, _TERA),
            *(_scaled(one.rates.get(rate), _TERA) for rate in _RATES),
            ", ".join(one.block_formats),
        ]
        for one in devices
    ]
    header = ("hardware", ">GB", ">TB/s", *(f">{rate}" for rate in _RATES), "block formats")
    print_table(header, rows, title="hardware, rates in TFLOP/s", turn=False)
    print("`mixprec hardware NAME` tells the source of every figure. No estimate for these has been validated.")


def _print_one(one: Hardware) -> None:
    single: tuple[tuple[str, Figure | None, float, str], ...] = (
        ("memory", one.memory, _GIGA, "GB"),
        ("bandwidth", one.bandwidth, _TERA, "TB/s"),
        ("link to devices of its node", one.link, _GIGA, "GB/s"),
        ("network to other nodes", one.network, _GIGA, "GB/s"),
        ("starting a kernel", one.launch, 1e-6, "us"),
    )
    rows = [[what, f"{_scaled(figure, unit)} {word}", figure.source] for what, figure, unit, word in single if figure]
    rows += [[f"{name} products", f"{f.value / _TERA:.5g} TFLOP/s", f.source] for name, f in one.rates.items()]
    rows += [[f"{name}: attainable share", f"{f.value:.0%}", f.source] for name, f in one.attainable.items()]
    if one.block_formats:
        rows.append(["block formats", ", ".join(one.block_formats), "that its matrix units apply the scales of"])
    if one.price_per_hour is not None:
        rows.append(["price per hour", f"{one.price_per_hour:g}", "yours"])
    state = "validated on the machine that was measured" if one.is_validated else "not validated"
    print_table((one.title, "", "source"), rows, title=f"{one.name} ({one.kind}), estimates {state}", folding="source")


def _scaled(figure: Figure | None, unit: float) -> str:
    """A figure in a unit, to four digits."""
    return NOTHING if figure is None else f"{figure.value / unit:.4g}"
