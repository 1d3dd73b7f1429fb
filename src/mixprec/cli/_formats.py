"""``mixprec formats``: what the number formats can hold."""

from __future__ import annotations

from ._print import print_table


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
        rows[-1] += [f"{facts.unit_roundoff:.3g}", _scales(facts.block, facts.scale, facts.tensor_scale)]
    header = ("format", ">bits per element", ">largest", ">smallest normal", ">unit roundoff", "scale")
    print_table(header, rows, title="formats")


def _print_one(name: str) -> None:
    from mixprec.formats import describe

    facts = describe(name)
    smallest = "none" if facts.smallest_subnormal is None else _number(facts.smallest_subnormal)
    rows = [
        ["element", facts.element],
        ["bits", f"{facts.bits} (exponent {facts.exponent_bits}, mantissa {facts.mantissa_bits}, bias {facts.bias})"],
        ["largest", _number(facts.largest)],
        ["smallest normal", _number(facts.smallest_normal)],
        ["smallest subnormal", smallest],
        ["values per binade", str(facts.values_per_binade)],
        ["unit roundoff", f"{facts.unit_roundoff:g}"],
        ["finite values", str(facts.finite_values)],
        *([meaning, code] for meaning, code in facts.special_codes),
        ["scale", _scales(facts.block, facts.scale, facts.tensor_scale)],
        ["bits per element", f"{facts.bits_per_element:g}"],
        ["source", facts.source],
    ]
    print_table(("", name), rows)


def _scales(block: tuple[int, int] | None, scale: str | None, tensor_scale: str | None) -> str:
    if block is None or scale is None:
        return "none of its own"
    tensor = f", times {tensor_scale} per tensor" if tensor_scale else ""
    return f"{scale} per {block[0]}x{block[1]}{tensor}"


def _number(value: float) -> str:
    """A value exactly where that is short, else to six digits.

    Example:
        >>> _number(448.0), _number(2.0**-9), _number(3.3895313892515355e38)
        ('448', '0.001953125', '3.38953e+38')
    """
    exact = f"{value:.12g}"
    return exact if float(exact) == value and len(exact) <= 14 else f"{value:.6g}"
