"""``mixprec formats``: what the number formats can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixprec.records import NOTHING

from ._print import print_table

if TYPE_CHECKING:
    from mixprec.formats import FormatDescription


def command(name: str | None = None, /) -> int:
    """Show what the number formats can hold.

    Without a name: all of them. With one, its largest and smallest values, its precision and its special codes.
    Any float format `eXmY` with X exponent and Y mantissa bits has such a table too.

    For example: `mixprec formats e4m3`, `mixprec formats nvfp4`, `mixprec formats e5m6`

    Args:
        name: a format (`e4m3`), a block format (`mxfp8`) or `eXmY`.
    """
    if name is None:
        _print_all()
    else:
        _print_one(name)
    return 0


def _print_all() -> None:
    from mixprec.formats import BLOCK_FORMATS, FORMATS, describe

    rows: list[list[str]] = []
    for name in (*FORMATS, *BLOCK_FORMATS):
        facts = describe(name)
        rows.append([name, f"{facts.bits_per_element:g}", _number(facts.largest), _number(facts.smallest_normal)])
        rows[-1] += [_number(facts.smallest_positive), _rounded(facts.unit_roundoff), _scales(facts)]
    header = (
        *("format", ">bits per element", ">largest", ">smallest normal", ">smallest positive", ">unit roundoff"),
        "scale",
    )
    print_table(header, rows, title="formats")
    print("`mixprec formats NAME` tells more of one, also of any eXmY (X from 2 to 8, Y from 1 to 23).")


def _print_one(name: str) -> None:
    from mixprec.formats import describe

    facts = describe(name)
    rows = [
        ["element", facts.element],
        ["bits", f"{facts.bits} ({_layout(facts)})"],
        ["largest", _number(facts.largest)],
        ["smallest normal", _number(facts.smallest_normal)],
        ["smallest subnormal", _number(facts.smallest_subnormal)],
        ["smallest positive", "" if facts.smallest_subnormal else _number(facts.smallest_positive)],
        ["values per binade", str(facts.values_per_binade or "")],
        ["unit roundoff", "" if facts.unit_roundoff is None else f"{facts.unit_roundoff:g}"],
        ["finite values", str(facts.finite_values)],
        ["values", ", ".join(f"{value:.4g}" for value in facts.values)],
        *([meaning, code] for meaning, code in facts.special_codes),
        ["scale", _scales(facts)],
        ["bits per element", f"{facts.bits_per_element:g}"],
        ["source", facts.source],
    ]
    # What a format does not have gets no row.
    print_table(("", name), [row for row in rows if row[1] not in ("", NOTHING)])


def _layout(facts: FormatDescription) -> str:
    """What an element's bits are, in words."""
    if facts.kind == "integer":
        return f"two's complement, in steps of {_number(facts.smallest_positive)}"
    if facts.kind == "table":
        return f"a table of {len(facts.values)} values"
    if facts.kind == "exponent":
        return f"no sign, no zero, exponent {facts.exponent_bits}, bias {facts.bias}"
    sign = "sign 1" if facts.signed else "no sign"
    return f"{sign}, exponent {facts.exponent_bits}, mantissa {facts.mantissa_bits}, bias {facts.bias}"


def _scales(facts: FormatDescription) -> str:
    """Which scale tiles of a block format share; of a format that only serves as a scale, that it does."""
    if facts.block is None or facts.scale is None:
        return "none of its own" if facts.signed else "is one itself: no sign"
    tensor = f", times {facts.tensor_scale} per tensor" if facts.tensor_scale else ""
    return f"{facts.scale} per {facts.block[0]}x{facts.block[1]}{tensor}"


def _rounded(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def _number(value: float | None) -> str:
    """A value exactly where that is short, else to six digits.

    Example:
        >>> _number(448.0), _number(2.0**-9), _number(3.3895313892515355e38), _number(None)
        ('448', '0.001953125', '3.38953e+38', '–')
    """
    if value is None:
        return NOTHING
    exact = f"{value:.12g}"
    return exact if float(exact) == value and len(exact) <= 14 else f"{value:.6g}"
