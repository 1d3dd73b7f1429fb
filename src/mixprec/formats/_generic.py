"""Float formats that nobody named: ExMy by parameters, and by a name such as ``e5m6``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ._format import Format, Nan, finite_magnitude, largest_code
from ._names import unknown_name

_EXMY = re.compile(r"e([2-8])m([1-9]|1[0-9]|2[0-3])")


def float_format(
    exponent_bits: int,
    mantissa_bits: int,
    *,
    bias: int | None = None,
    nan: Nan = "ieee",
    name: str | None = None,
) -> Format:
    """Build a float format from its parameters. It is not registered.

    Args:
        exponent_bits: 1 to 8.
        mantissa_bits: 0 to 23.
        bias: exponent bias; by default ``2**(exponent_bits - 1) - 1``.
        nan: which codes are NaN. ``"ieee"``: the top exponent, which also gives infinities.
            ``"all-ones"``: only S.11..1 and no infinity. ``"negative-zero"``: only the code of -0, no
            infinity (FNUZ). ``"none"``: every code is a finite number.
        name: by default ``e<exponent_bits>m<mantissa_bits>``.

    Returns:
        The format, with its largest value derived.

    Raises:
        ValueError: fp32 cannot hold the values, or ``nan="ieee"`` leaves no number.

    Example:
        >>> float_format(4, 3).max_value, float_format(4, 3, nan="all-ones").max_value
        (240.0, 448.0)
        >>> float_format(4, 3, bias=8, nan="negative-zero", name="e4m3fnuz").max_value
        240.0
    """
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            f"got exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}; expected 1 to 8 and 0 to 23"
        )
    if bias is None:
        bias = (1 << (exponent_bits - 1)) - 1
    top = largest_code("float", exponent_bits, mantissa_bits, nan)
    return Format(
        name=name or f"e{exponent_bits}m{mantissa_bits}",
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        bias=bias,
        has_infinity=nan == "ieee",
        nan=nan,
        max_value=finite_magnitude("float", top, mantissa_bits, bias),
        has_negative_zero=nan != "negative-zero",
        source="generic: derived from its parameters",
    )


def unknown_format(got: str, known: Iterable[str]) -> ValueError:
    """Make the error for a format that nobody registered, which also tells of the generic names.

    Example:
        >>> print(unknown_format("e9m2", ["e5m2"]))
        unknown format 'e9m2': expected one of e5m2, any eXmY (X from 2 to 8, Y from 1 to 23); did you mean 'e5m2'?
    """
    return unknown_name("format", got, [*known, "any eXmY (X from 2 to 8, Y from 1 to 23)"])


def is_generic(name: str) -> bool:
    """Tell whether ``get_format`` reads a name as exponent and mantissa bits.

    Example:
        >>> is_generic("e5m6"), is_generic("e9m1"), is_generic("bf16")
        (True, False, False)
    """
    return _EXMY.fullmatch(name) is not None


def exmy(name: str) -> Format | None:
    """Read a generic name: ``e5m6`` is 5 exponent and 6 mantissa bits under IEEE 754's rules.

    Args:
        name: any string.

    Returns:
        The format, or ``None`` where the name is not ``e2m1`` to ``e8m23``.

    Example:
        >>> exmy("e5m6").max_value, exmy("e9m1")
        (65024.0, None)
    """
    found = _EXMY.fullmatch(name)
    return float_format(int(found[1]), int(found[2])) if found else None
