"""Scaled casts in plain Python, derived from their definitions and not from any backend.

A matrix is a list of rows. fp32 results are Python floats that were rounded to fp32 once: a sum, product or
quotient of two fp32 numbers, computed in fp64 and then rounded to fp32, is the fp32 result.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from mixprec import formats
from mixprec.specs import Cast, parse_cast

Matrix = list[list[float]]


def f32(x: float) -> float:
    return ctypes.c_float(x).value


def transpose(m: Matrix, rows: int) -> Matrix:
    return [[line[i] for line in m] for i in range(rows)]


def scaled(
    m: Matrix, columns: int, cast: Cast | str, axis: int, seed: int = 0, offset: int = 0
) -> tuple[Matrix, Matrix | float]:
    """Carrier ``[R, C]`` and outer scale (a number, or ``[R, 1]`` / ``[1, C]`` for row scales)."""
    cast = parse_cast(cast) if isinstance(cast, str) else cast
    turned = m if axis == 1 else transpose(m, columns)
    if cast.transform:
        turned = [hadamard(row, cast.transform, cast.random_signs) for row in turned]
    width = len(turned[0]) if turned else 0
    height = len(turned)

    def element(i: int, j: int, x: float) -> float:
        """The element at row i, column j of the turned matrix; random bits are counted unturned."""
        index = i * width + j if axis == 1 else j * height + i
        bits = formats.random_bits(seed, offset, index) if cast.rounding == "stochastic" else None
        block = cast.granularity.kind == "block"
        overflow = "saturate" if block else cast.overflow
        return formats.round(cast.element, x, rounding=cast.rounding, bits=bits, overflow=overflow)

    carrier, outer = _BY_KIND[_kind(cast)](turned, cast, element)
    if axis == 0:
        carrier = transpose(carrier, width)
        outer = outer if isinstance(outer, float) else [[line[0] for line in outer]]
    return carrier, outer


Element = Callable[[int, int, float], float]


def _kind(cast: Cast) -> str:
    if cast.granularity.kind != "block":
        return cast.granularity.kind
    return "two-level" if cast.tensor_scale else "mx"


def _unscaled(m: Matrix, cast: Cast, element: Element) -> tuple[Matrix, float]:
    return [[element(i, j, x) for j, x in enumerate(row)] for i, row in enumerate(m)], 1.0


def _tensor(m: Matrix, cast: Cast, element: Element) -> tuple[Matrix, float]:
    q = quant_scale(amax(x for row in m for x in row), formats.get_format(cast.element).max_value)
    return [[element(i, j, f32(x * q)) for j, x in enumerate(row)] for i, row in enumerate(m)], f32(1 / q)


def _row(m: Matrix, cast: Cast, element: Element) -> tuple[Matrix, Matrix]:
    carrier: Matrix = []
    outer: Matrix = []
    for i, row in enumerate(m):
        q = quant_scale(amax(row), formats.get_format(cast.element).max_value)
        carrier.append([element(i, j, f32(x * q)) for j, x in enumerate(row)])
        outer.append([f32(1 / q)])
    return carrier, outer


def _mx(m: Matrix, cast: Cast, element: Element) -> tuple[Matrix, float]:
    carrier = [[0.0] * len(row) for row in m]
    for tile in tiles(m, cast):
        a = amax(m[i][j] for i, j in tile)
        exponent = mx_exponent(a, cast)
        for i, j in tile:
            if exponent is None:
                carrier[i][j] = math.nan
            else:
                q = element(i, j, f32(m[i][j] * 2.0**-exponent))
                carrier[i][j] = f32(q * 2.0**exponent)
    return carrier, 1.0


def mx_exponent(a: float, cast: Cast) -> int | None:
    """Exponent of the shared scale from the definitions, in rational numbers."""
    if not math.isfinite(a):
        return None
    fmt = formats.get_format(cast.element)
    if a == 0.0:
        return -127
    exact = Fraction(a)
    match cast.rule:
        case "floor":
            exponent = floor_log2(exact) - fmt.max_exponent
        case "ceil":
            exponent = ceil_log2(exact) - fmt.max_exponent
        case "rceil":
            exponent = ceil_log2(exact / Fraction(fmt.max_value))
        case _:
            unit = Fraction(2) ** (floor_log2(exact) - fmt.mantissa_bits)
            exponent = floor_log2(math.floor(exact / unit + Fraction(1, 2)) * unit) - fmt.max_exponent
    return min(max(exponent, -127), 127)


def _two_level(m: Matrix, cast: Cast, element: Element) -> tuple[Matrix, float]:
    top = formats.get_format(cast.element).max_value
    target = top * 16 / 17 if cast.rounding == "stochastic" else top
    q = quant_scale(amax(x for row in m for x in row), target * 448)
    carrier = [[0.0] * len(row) for row in m]
    for tile in tiles(m, cast):
        b = f32(amax(m[i][j] for i, j in tile) * q)
        s = formats.round("e4m3", f32(b / target)) or 1.0
        encode = f32(q / s)
        encode = min(encode, 2.0**127) if encode == encode else encode
        for i, j in tile:
            carrier[i][j] = f32(element(i, j, f32(m[i][j] * encode)) * s)
    return carrier, f32(1 / q)


_BY_KIND = {"none": _unscaled, "tensor": _tensor, "row": _row, "mx": _mx, "two-level": _two_level}


def quant_scale(a: float, limit: float) -> float:
    if not math.isfinite(a):
        return math.nan
    return 1.0 if a == 0.0 else min(f32(limit / a), 2.0**127)


def amax(values: Sequence[float] | object) -> float:
    largest = 0.0
    for x in values:  # type: ignore[attr-defined]
        if x != x:
            return math.nan
        largest = max(largest, abs(x))
    return largest


def tiles(m: Matrix, cast: Cast) -> list[list[tuple[int, int]]]:
    """Positions of each tile; those at the edges are smaller."""
    height, width = len(m), len(m[0]) if m else 0
    outer, reduction = cast.granularity.outer, cast.granularity.reduction
    return [
        [(i, j) for i in range(top, min(top + outer, height)) for j in range(left, min(left + reduction, width))]
        for top in range(0, height, outer)
        for left in range(0, width, reduction)
    ]


def hadamard(row: list[float], size: int, signs: bool) -> list[float]:
    result: list[float] = []
    for start in range(0, len(row), size):
        group = row[start : start + size]
        group += [0.0] * (size - len(group))
        if signs:
            group = [-x if formats.random_bits(0x6D697870, 0, j) & 1 else x for j, x in enumerate(group)]
        h = 1
        while h < size:
            group = [f32(group[j] + group[j + h]) if not j & h else f32(group[j - h] - group[j]) for j in range(size)]
            h *= 2
        result += [f32(x * f32(1 / math.sqrt(size))) for x in group]
    return result


def floor_log2(x: Fraction) -> int:
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if Fraction(2) ** k <= x else k - 1


def ceil_log2(x: Fraction) -> int:
    k = floor_log2(x)
    return k if Fraction(2) ** k == x else k + 1
