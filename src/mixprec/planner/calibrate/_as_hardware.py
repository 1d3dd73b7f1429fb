"""What was measured of a machine, as hardware."""

from __future__ import annotations

from ...hardware import Figure, Hardware, Measured


def as_hardware(name: str, measured: Measured, *, is_validated: bool) -> Hardware:
    """Hardware of measurements; its rates and bandwidth are those of the largest sizes."""
    source = f"measured: {measured.machine}, {measured.threads} threads, torch {measured.torch}"
    rates: dict[str, Figure] = {}
    for format_name in ("fp32", "bf16"):
        grid = measured.products.get(format_name)
        if grid is not None:
            m, n, k = grid.m[-1], grid.n[-1], grid.k[-1]
            rates[format_name] = Figure(2 * m * n * k / grid.at(m, n, k), f"{source}: {m} x {n} x {k}")
    size, seconds = measured.operators["elementwise"].points[-1]
    return Hardware(
        name=name,
        title=measured.machine,
        kind="cpu",
        bandwidth=Figure(size / seconds, f"{source}: an addition of {size / 1e6:.0f} MB in all"),
        rates=rates,
        is_validated=is_validated,
        measured=measured,
    )
