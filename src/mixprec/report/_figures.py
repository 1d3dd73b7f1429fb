"""Figures of a tensor in words: shares, decibels, magnitudes."""

from __future__ import annotations

import math

from mixprec.records import NOTHING, duration


def share(value: float) -> str:
    """A share in percent, to two digits; what is not nothing is never shown as such.

    Example:
        >>> share(0.0), share(0.3456), share(0.0996), share(0.00034), share(1e-9), share(0.9999), share(1.0)
        ('0 %', '35 %', '10 %', '0.034 %', '<0.001 %', '99.9 %', '100 %')
    """
    if math.isnan(value):
        return NOTHING
    percent = 100 * value
    if percent in (0, 100):
        return f"{percent:.0f} %"
    if percent < 0.001:
        return "<0.001 %"
    if percent >= 99.5:
        return f"{min(percent, 99.9):.1f} %"
    # Rounded first, so that 9.96 is 10 and not 10.0.
    return f"{percent:.{max(0, 1 - math.floor(math.log10(float(f'{percent:.1e}'))))}f} %"


def decibels(value: float) -> str:
    """A ratio of signal to noise.

    Example:
        >>> decibels(23.46), decibels(math.inf), decibels(-3.0), decibels(math.nan)
        ('23 dB', 'exact', '−3 dB', '–')
    """
    if math.isnan(value):
        return NOTHING
    return "exact" if value == math.inf else f"{value:.0f} dB".replace("-", "−")


def magnitude(value: float | None) -> str:
    """Any number, to three digits.

    Example:
        >>> magnitude(0.0), magnitude(48.25), magnitude(1234567.0), magnitude(3.2e-7), magnitude(None)
        ('0', '48.2', '1.23e+06', '3.2e−07', '–')
    """
    if value is None:
        return NOTHING
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3g}".replace("-", "−")


def loss(value: float) -> str:
    """A loss: four decimals, of a small one three digits.

    Example:
        >>> loss(2.34567), loss(0.000123456), loss(0.0), loss(math.nan)
        ('2.3457', '0.000123', '0.0000', 'NaN')
    """
    if not math.isfinite(value) or 0 < abs(value) < 1e-2 or abs(value) >= 1e6:
        return magnitude(value)
    return f"{value:.4f}".replace("-", "−")


def scale(value: float | None) -> str:
    """A loss scale: a power of two as such.

    Example:
        >>> scale(65536.0), scale(1.0), scale(1000.0), scale(None)
        ('2^16', '1', '1000', '–')
    """
    if value is None:
        return NOTHING
    if value > 1 and math.isfinite(value) and math.frexp(value)[0] == 0.5:
        return f"2^{math.frexp(value)[1] - 1}"
    return f"{value:g}"


def two_digits(value: float) -> str:
    """A difference or an uncertainty, to two digits.

    Example:
        >>> two_digits(0.024843), two_digits(-0.01), two_digits(0.0), two_digits(123.4)
        ('0.025', '−0.01', '0', '120')
    """
    if not math.isfinite(value):
        return magnitude(value)
    rounded = float(f"{value:.2g}")
    return (f"{rounded:.0f}" if 10 <= abs(rounded) < 1e6 else f"{rounded:.2g}").replace("-", "−")


def seconds(value: float | None) -> str:
    """A time.

    Example:
        >>> seconds(0.0123), seconds(2.5), seconds(0.0000031), seconds(None)
        ('12.3 ms', '2.50 s', '3.1 µs', '–')
    """
    if value is None or not math.isfinite(value) or value >= 1e-3:
        return duration(value)
    return f"{1e6 * value:.3g} µs"
