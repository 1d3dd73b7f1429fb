"""Scaled casts in plain Python, derived from their definitions and not from any backend.

A matrix is a list of rows. fp32 results are Python floats that were rounded to fp32 once: a sum, product or
quotient of two fp32 numbers, computed in fp64 and then rounded to fp32, is the fp32 result.
"""

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from mixprec import formats
from mixprec.specs import Cast, parse_cast

Matrix = list[list[float]]
Place = tuple[int, int]

LARGEST_QUANT_SCALE = 2.0**127
FIXED_SIGNS = (0x6D697870, 0)


@dataclass(frozen=True)
class Random:
    """Seed and offsets of a cast's random bits."""

    seed: int = 0
    offset: int = 0
    sign_offset: int = 0


NOTHING_RANDOM = Random()


@dataclass
class Result:
    """What a cast makes of a matrix, in its own layout."""

    elements: Matrix
    carrier: Matrix
    scales: Matrix  # one per tile; empty without block scales of their own
    outer: float | Matrix


@dataclass(frozen=True)
class Scale:
    """Of one group: ``q = round(x * quant)``, ``carrier = q * scale``, ``value = carrier * outer``."""

    quant: float
    scale: float
    outer: float


def f32(x: float) -> float:
    return ctypes.c_float(x).value


def transpose(m: Matrix, rows: int) -> Matrix:
    return [[line[i] for line in m] for i in range(rows)]


def scaled(
    m: Matrix, columns: int, cast: Cast | str, axis: int, random: Random = NOTHING_RANDOM, given_amax: float = 0.0
) -> Result:
    """A matrix of so many columns under a cast; ``given_amax`` is what a delayed scale is made for."""
    cast = parse_cast(cast) if isinstance(cast, str) else cast
    m, columns = transformed(m, columns, cast, axis, random)
    groups = groups_of(len(m), columns, cast, axis)
    is_tiled = cast.granularity.kind == "block"
    top = tensor_quant_scale(m, cast)
    result = Result([[0.0] * columns for _ in m], [[0.0] * columns for _ in m], [], 1.0)
    lines: Matrix = []
    for tile_row in groups:
        lines.append([])
        for places, whole in tile_row:
            a = amax(m[i][j] for i, j in places)
            if given_amax and cast.delayed:
                a = given_amax
            chosen = choose(m, places, whole, cast, a, top)
            for i, j in places:
                q = element(cast, f32(m[i][j] * chosen.quant), i * columns + j, random)
                result.elements[i][j] = q
                result.carrier[i][j] = f32(q * chosen.scale)
            lines[-1].append(chosen)
    result.scales = [[s.scale for s in line] for line in lines] if is_tiled and cast.scale != "fp32" else []
    if cast.granularity.kind == "row" or (is_tiled and cast.scale == "fp32"):
        result.outer = [[s.outer for s in line] for line in lines]
    elif is_tiled:
        result.outer = f32(1 / top) if cast.tensor_scale else f32(1 / prescale(cast))
    else:
        result.outer = lines[0][0].outer
    return result


def element(cast: Cast, x: float, index: int, random: Random) -> float:
    bits = formats.random_bits(random.seed, random.offset, index) if cast.rounding == "stochastic" else None
    overflow = "saturate" if cast.granularity.kind == "block" else cast.overflow
    return formats.round(cast.element, x, rounding=cast.rounding, bits=bits, overflow=overflow)


def groups_of(rows: int, columns: int, cast: Cast, axis: int) -> list[list[tuple[list[Place], list[Place | None]]]]:
    """What shares a scale, laid out as the matrix: its places, and those of the whole tile (None beyond the end)."""
    match cast.granularity.kind:
        case "row":
            height, width = (1, max(columns, 1)) if axis else (max(rows, 1), 1)
        case "block":
            height, width = cast.granularity.outer, cast.granularity.reduction
            height, width = (height, width) if axis else (width, height)
        case _:
            everything = [(i, j) for i in range(rows) for j in range(columns)]
            return [[(everything, list(everything))]]
    counts = (-(-rows // height), -(-columns // width))
    if cast.granularity.kind == "row":  # there is a scale for each row, also where it has no elements
        counts = (rows, 1) if axis else (1, columns)
    groups = []
    for top in range(0, counts[0] * height, height):
        line = []
        for left in range(0, counts[1] * width, width):
            square = [(i, j) for i in range(top, top + height) for j in range(left, left + width)]
            whole = [(i, j) if i < rows and j < columns else None for i, j in square]
            line.append(([place for place in whole if place is not None], whole))
        groups.append(line)
    return groups


def choose(m: Matrix, places: list[Place], whole: list[Place | None], cast: Cast, a: float, top: float) -> Scale:
    """The scale of a group; under the choice 4/6, of two the one with the smaller squared error."""
    if cast.granularity.kind == "none":
        return Scale(1.0, 1.0, 1.0)
    if cast.rule == "quest":
        return power_scale(reach(m, whole), cast)
    if cast.scale == "e8m0":
        return power_scale(a, cast)
    make = fp32_scale if cast.scale == "fp32" else float_scale
    first = make(a, cast, target_of(cast), top)
    if cast.rule != "four-over-six":
        return first
    second = make(a, cast, 4.0, top)
    return second if squared_error(m, whole, cast, second, top) < squared_error(m, whole, cast, first, top) else first


def squared_error(m: Matrix, whole: list[Place | None], cast: Cast, scale: Scale, top: float) -> float:
    s = scale.outer if cast.scale == "fp32" else scale.scale
    squares = []
    for place in whole:
        x = m[place[0]][place[1]] if place else 0.0
        q = formats.round(cast.element, f32(x * scale.quant)) if place else 0.0
        d = q * s - x * top if place else 0.0
        squares.append(d * d)
    return halved(squares)


def halved(values: list[float]) -> float:
    """The sum by halving, padded with zeros to a power of two."""
    while len(values) & (len(values) - 1):
        values = [*values, 0.0]
    while len(values) > 1:
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


def reach(m: Matrix, whole: list[Place | None]) -> float:
    """What QuEST's scale is made for, from the standard deviation of a tile."""
    values = [m[place[0]][place[1]] if place else 0.0 for place in whole]
    n = sum(place is not None for place in whole)
    mean = halved(values) / n
    variance = halved([x * x for x in values]) / n - mean * mean
    return math.nan if variance != variance else math.sqrt(max(variance, 0.0)) * (2.92247856 / 6.0)


def target_of(cast: Cast) -> float:
    margin = cast.delayed.margin if cast.delayed else 0
    return formats.get_format(cast.element).max_value * cast.ratio.numerator / cast.ratio.denominator / 2.0**margin


def prescale(cast: Cast) -> float:
    """What elements are multiplied by besides a power of two."""
    if cast.scale != "e8m0":
        return 1.0
    return f32(float(cast.ratio / 2 ** (cast.delayed.margin if cast.delayed else 0)))


def power_scale(a: float, cast: Cast) -> Scale:
    exponent, r = mx_exponent(a, cast), prescale(cast)
    if exponent is None:
        power, quant = math.nan, math.nan
    else:
        power, quant = 2.0**exponent, f32(r * 2.0**-exponent)
    if cast.granularity.kind == "block":
        return Scale(quant, power, f32(1 / r))
    return Scale(quant, 1.0, f32(power / r))


def fp32_scale(a: float, cast: Cast, target: float, top: float) -> Scale:
    q = quant_scale(a, target)
    return Scale(q, 1.0, f32(1 / q))


def float_scale(a: float, cast: Cast, target: float, top: float) -> Scale:
    b = f32(a * top)
    if not math.isfinite(b):
        return Scale(math.nan, math.nan, f32(1 / top))
    s = max(formats.round(str(cast.scale), f32(b / target)) or 1.0, least_scale(str(cast.scale), top))
    return Scale(min(f32(top / s), LARGEST_QUANT_SCALE), s, f32(1 / top))


@cache
def least_scale(name: str, top: float) -> float:
    """The smallest scale under which elements are multiplied by at most 2**127."""
    fmt = formats.get_format(name)
    scales = (formats.decode(fmt, code) for code in range(1, fmt.max_code + 1))
    return next((s for s in scales if top / s <= LARGEST_QUANT_SCALE), fmt.max_value)


def tensor_quant_scale(m: Matrix, cast: Cast) -> float:
    """What float block scales stand under; 1 without a tensor scale."""
    if not cast.tensor_scale:
        return 1.0
    fmt = formats.get_format(str(cast.scale))
    limit = 2.0 ** (math.frexp(fmt.max_value)[1] - 1) if cast.rule == "four-over-six" else fmt.max_value
    return quant_scale(amax(x for row in m for x in row), target_of(cast) * limit)


def mx_exponent(a: float, cast: Cast) -> int | None:
    """Exponent of the shared scale from the definitions, in rational numbers."""
    if not math.isfinite(a):
        return None
    fmt = formats.get_format(cast.element)
    if a == 0.0:
        return -127
    exact = Fraction(a)
    match cast.rule:
        case "quest":
            exponent = floor_log2(exact)
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


def quant_scale(a: float, limit: float) -> float:
    if not math.isfinite(a):
        return math.nan
    return 1.0 if a == 0.0 else min(f32(limit / a), LARGEST_QUANT_SCALE)


def amax(values: Iterable[float]) -> float:
    largest = 0.0
    for x in values:
        if x != x:
            return math.nan
        largest = max(largest, abs(x))
    return largest


def transformed(m: Matrix, columns: int, cast: Cast, axis: int, random: Random) -> tuple[Matrix, int]:
    """The matrix that is rounded, and its columns."""
    size = cast.transform
    if not size:
        return m, columns
    keys = {"none": None, "fixed": FIXED_SIGNS, "fresh": (random.seed, random.sign_offset)}
    key = keys[cast.signs]
    if axis == 1:
        return [hadamard(row, size, key) for row in m], -(-columns // size) * size
    rows = -(-len(m) // size) * size
    return transpose([hadamard(line, size, key) for line in transpose(m, columns)], rows), columns


def hadamard(row: list[float], size: int, key: tuple[int, int] | None) -> list[float]:
    result: list[float] = []
    for start in range(0, len(row), size):
        group = row[start : start + size]
        group += [0.0] * (size - len(group))
        if key is not None:
            group = [-x if formats.random_bits(*key, j) & 1 else x for j, x in enumerate(group)]
        h = 1
        while h < size:
            group = [f32(group[j] + group[j + h]) if not j & h else f32(group[j - h] - group[j]) for j in range(size)]
            h *= 2
        result += [f32(x * f32(1 / math.sqrt(size))) for x in group]
    return result


def codes_of(result: Result, cast: Cast | str, columns: int) -> tuple[list[list[int]], list[list[int]]]:
    """Packed codes of the elements, and codes of the block scales."""
    cast = parse_cast(cast) if isinstance(cast, str) else cast
    bits = formats.get_format(cast.element).bits
    packed = []
    for row in result.elements:
        stream = sum(code_of(cast.element, x) << (j * bits) for j, x in enumerate(row))
        packed.append(list(stream.to_bytes(-(-columns * bits // 8), "little")))
    return packed, [[formats.encode(str(cast.scale), s) for s in line] for line in result.scales]


def code_of(name: str, x: float) -> int:
    """NaN is coded as 0 is where there is no NaN."""
    return formats.encode(name, 0.0 if x != x and formats.get_format(name).nan == "none" else x)


def narrow_product(a: Matrix, b: Matrix, columns: int, narrow: Callable[[float], float], promote_every: int) -> Matrix:
    return [[_narrow_sum(row, [line[n] for line in b], narrow, promote_every) for n in range(columns)] for row in a]


def _narrow_sum(a: list[float], b: list[float], narrow: Callable[[float], float], promote_every: int) -> float:
    total = accumulator = 0.0
    for k, (x, y) in enumerate(zip(a, b, strict=True), start=1):
        accumulator = narrow(accumulator + x * y)
        if promote_every and k % promote_every == 0:
            total, accumulator = f32(total + f32(accumulator)), 0.0
    return f32(total + f32(accumulator))


def narrow(x: float, mantissa_bits: int, rounding: str) -> float:
    """The significand rounded to ``mantissa_bits`` after the leading one."""
    if x == 0 or not math.isfinite(x):
        return x
    unit = Fraction(2) ** (floor_log2(abs(Fraction(x))) - mantissa_bits)
    places = abs(Fraction(x)) / unit
    whole = math.floor(places) if rounding == "toward-zero" else round(places)
    return math.copysign(float(whole * unit), x)


def floor_log2(x: Fraction) -> int:
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if Fraction(2) ** k <= x else k - 1


def ceil_log2(x: Fraction) -> int:
    k = floor_log2(x)
    return k if Fraction(2) ** k == x else k + 1
