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


def difference(value: float | None, sd: float | None = None) -> str:
    """A difference with its sign, to as many decimals as show two digits of its spread (or of itself).

    Example:
        >>> difference(0.0123), difference(-0.000412, 0.000056), difference(0.0)
        ('+0.0123', '−0.000412', '0')
    """
    if value is None or not math.isfinite(value) or value == 0:
        return "0" if value == 0 else number(value)
    return f"{value:+.{_decimals(sd or value)}f}".replace("-", "−")


def spread(sd: float) -> str:
    """A standard deviation, to two digits at least.

    Example:
        >>> spread(0.0044), spread(0.000056)
        ('0.0044', '0.000056')
    """
    return number(sd) if not sd or not math.isfinite(sd) else f"{sd:.{_decimals(sd)}f}"


def _decimals(scale: float) -> int:
    if not math.isfinite(scale):
        return 4
    return min(10, max(4, 1 - math.floor(math.log10(abs(scale)))))


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
