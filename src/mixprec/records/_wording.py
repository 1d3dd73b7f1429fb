"""Numbers as a reader wants them: few digits, a real minus sign, units."""

from __future__ import annotations

import math

NOTHING = "–"


def number(value: float | None, digits: int = 4) -> str:
    """A plain number.

    Example:
        >>> number(2.34567), number(None), number(float("nan")), number(-0.5, 1)
        ('2.3457', '–', 'NaN', '−0.5')
    """
    if value is None:
        return NOTHING
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    # A small quantity keeps three significant digits where fixed decimals would show zeros; a huge one its exponent.
    if value and (abs(value) < 10.0**-digits or abs(value) >= 1e7):
        return f"{value:.2e}".replace("-", "−")
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 4) -> str:
    """A difference, with its sign.

    Example:
        >>> signed(0.0123), signed(-0.0123), signed(0.0)
        ('+0.0123', '−0.0123', '0')
    """
    if value == 0:
        return "0"
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 else text


def times(ratio: float | None) -> str:
    """A ratio.

    Example:
        >>> times(1.0934), times(43.21), times(None)
        ('1.09×', '43.2×', '–')
    """
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.3g}×"


def size(count: int | None) -> str:
    """Bytes in decimal units.

    Example:
        >>> size(999), size(40_200_000), size(None)
        ('999 B', '40.2 MB', '–')
    """
    if count is None:
        return NOTHING
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            value = count / scale
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{count} B"


def duration(seconds: float | None) -> str:
    """A time.

    Example:
        >>> duration(0.0123), duration(2.5)
        ('12.3 ms', '2.50 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def percent(share: float) -> str:
    """A share; what is neither nothing nor all is never shown as such.

    Example:
        >>> percent(0.937), percent(0.0004), percent(0.9999), percent(1.0)
        ('94 %', '<1 %', '>99 %', '100 %')
    """
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def count(n: int, thing: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "seed"), count(3, "seed")
        ('1 seed', '3 seeds')
    """
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
