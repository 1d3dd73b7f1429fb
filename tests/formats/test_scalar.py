"""Rounding, encoding and decoding one number: the rules, checked with fractions and by properties."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.formats import FORMATS, Format, decode, encode, float_format, get_format, round

SMALL = ("e5m2", "e4m3", "e4m3-ieee", "e4m3fnuz", "e5m2fnuz", "e3m2", "e2m3", "e2m1", "int8")
SIGNED = ("fp32", "tf32", "bf16", "fp16", *SMALL, "e5m6", "e3m4")
TABLES = ("int4", "nf4")
UNSIGNED = ("ue4m3", "ue5m3")
FNUZ = float_format(4, 3, bias=8, nan="negative-zero", name="e4m3fnuz")
ROUNDINGS = ("nearest-even", "toward-zero")

finite = st.floats(allow_nan=False, allow_infinity=False)
around_one = st.floats(min_value=-1000, max_value=1000, allow_nan=False)
numbers = st.one_of(finite, around_one, st.floats(width=32, allow_nan=False, allow_infinity=False))
words = st.integers(min_value=0, max_value=2**32 - 1)


def same(a: float, b: float) -> bool:
    """Equal as codes are: -0 is not 0, and NaN is NaN."""
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)


@lru_cache
def grid(name: str) -> list[float]:
    """The finite values from 0 up."""
    fmt = get_format(name)
    return [decode(fmt, code) for code in range(fmt.max_code + 1)]


@lru_cache
def fractions(name: str) -> list[Fraction]:
    return [Fraction(value) for value in grid(name)]


def neighbours(name: str, x: float) -> tuple[int, Fraction]:
    """Index of the grid value at or below ``|x|`` (not beyond the largest), and the fraction to the next."""
    values, target = fractions(name), Fraction(abs(x))
    index = bisect_right(values, target) - 1
    if index == len(values) - 1:
        return index, Fraction(0)
    return index, (target - values[index]) / (values[index + 1] - values[index])


@pytest.mark.parametrize("name", [*SIGNED, *TABLES, *UNSIGNED, "e8m0"])
def test_every_code_decodes_and_encodes_to_itself(name: str):
    fmt = get_format(name)
    codes = range(1 << fmt.bits) if fmt.bits <= 16 else range(0, 1 << fmt.bits, (1 << fmt.bits) // 4099)
    for code in codes:
        value = decode(fmt, code)
        if value == value and not (fmt.kind == "integer" and code == 0x80):
            assert encode(fmt, value) == code


def test_special_codes():
    codes = {
        "fp32": 0x7FC00000,
        "fp16": 0x7E00,
        "bf16": 0x7FC0,
        "e5m2": 0x7E,
        "e4m3": 0x7F,
        "e4m3-ieee": 0x7C,
        "e4m3fnuz": 0x80,
        "e5m2fnuz": 0x80,
        "ue4m3": 0x7F,
        "ue5m3": 0xFF,
        "e8m0": 0xFF,
    }
    assert {name: encode(name, math.nan) for name in codes} == codes
    assert all(math.isnan(decode(name, code)) for name, code in codes.items())
    assert (encode("e5m2", math.inf), encode("e5m2", -math.inf)) == (0x7C, 0xFC)
    assert encode(FNUZ, math.nan) == 0x80
    assert math.isnan(decode(FNUZ, 0x80))
    assert decode("int8", 0x80) == -2.0
    assert encode("int8", -2.0) == 0x81
    assert same(decode("e2m1", 0x8), -0.0)


@pytest.mark.parametrize("name", ["e3m2", "e2m3", "e2m1", "int8", "int4", "nf4"])
def test_formats_without_nan_refuse_to_encode_it(name: str):
    assert math.isnan(round(name, math.nan, overflow="propagate"))
    with pytest.raises(ValueError, match=f"NaN has no code in '{name}'"):
        encode(name, math.nan)


@pytest.mark.parametrize("name", ["e4m3", "e4m3fnuz", "e2m1", "nf4", "ue5m3", "e8m0"])
def test_formats_without_infinity_refuse_to_encode_it(name: str):
    with pytest.raises(ValueError, match=f"inf has no code in '{name}'"):
        encode(name, math.inf)


@pytest.mark.parametrize("code", [-1, 16])
def test_codes_of_too_many_bits_are_refused(code: int):
    with pytest.raises(ValueError, match="expected 0 to 15"):
        decode("e2m1", code)


@pytest.mark.parametrize(
    ("name", "x", "saturated", "propagated"),
    [
        ("e4m3", 464.0, 448.0, 448.0),
        ("e4m3", math.nextafter(464.0, 500.0), 448.0, math.nan),
        ("e4m3", math.inf, 448.0, math.nan),
        ("e5m2", math.nextafter(61440.0, 0.0), 57344.0, 57344.0),
        ("e5m2", 61440.0, 57344.0, math.inf),
        ("e5m2", -1e6, -57344.0, -math.inf),
        ("fp16", 65519.99, 65504.0, 65504.0),
        ("fp16", 65520.0, 65504.0, math.inf),
        ("e2m1", 1e9, 6.0, 6.0),
        ("e2m1", -math.inf, -6.0, -6.0),
        ("int8", -2.0, -127 / 64, -127 / 64),
        ("int8", math.inf, 127 / 64, 127 / 64),
        ("e4m3-ieee", 248.0, 240.0, math.inf),
        ("e4m3fnuz", math.nextafter(248.0, 0.0), 240.0, 240.0),
        ("e4m3fnuz", -248.0, -240.0, math.nan),
        ("e5m2fnuz", math.inf, 57344.0, math.nan),
        ("int4", 7.6, 7.0, 7.0),
        ("int4", -9.0, -8.0, -8.0),
        ("int4", -math.inf, -8.0, -8.0),
        ("nf4", 1e9, 1.0, 1.0),
        ("nf4", -math.inf, -1.0, -1.0),
        ("ue4m3", 464.0, 448.0, 448.0),
        ("ue5m3", math.inf, 114688.0, math.nan),
        ("e8m0", 1.5 * 2.0**127, 2.0**127, 2.0**127),
        ("e8m0", 1.6 * 2.0**127, 2.0**127, math.nan),
        ("fp32", 3.4028235677973366e38, (2 - 2.0**-23) * 2.0**127, math.inf),
    ],
)
def test_overflow_is_judged_after_rounding(name: str, x: float, saturated: float, propagated: float):
    assert same(round(name, x), saturated)
    assert same(round(name, x, overflow="propagate"), propagated)


@pytest.mark.parametrize("name", ["e5m2", "e4m3", "e2m1", "fp16"])
def test_toward_zero_overflows_at_infinity_only(name: str):
    largest = get_format(name).max_value
    assert round(name, 1e300, rounding="toward-zero", overflow="propagate") == largest
    at_infinity = round(name, math.inf, rounding="toward-zero", overflow="propagate")
    assert same(at_infinity, round(name, math.inf, overflow="propagate"))


def test_zeros_keep_their_sign_where_the_format_has_one():
    assert same(round("e4m3", -1e-9), -0.0)
    assert same(round("e2m1", -0.0), -0.0)
    assert same(round("int8", -0.001), 0.0)
    assert same(round("int8", -0.0), 0.0)
    for name in (FNUZ, "e4m3fnuz", "e5m2fnuz", "int4", "nf4"):
        assert same(round(name, -1e-9), 0.0)
        assert same(round(name, -0.0), 0.0)


@pytest.mark.parametrize("name", UNSIGNED)
def test_a_format_without_sign_has_nothing_below_zero(name: str):
    fmt = get_format(name)
    assert same(round(name, -fmt.min_subnormal / 2), 0.0)  # the tie goes to zero, whose code is even
    assert same(round(name, -0.0), 0.0)
    assert math.isnan(round(name, -fmt.min_subnormal))
    assert math.isnan(round(name, -math.inf))


@pytest.mark.parametrize(
    ("x", "nearest", "truncated"),
    [
        (2.5, 2.0, 2.0),  # -8 is place 0, so that even numbers stand at even places
        (3.5, 4.0, 3.0),
        (-2.5, -2.0, -2.0),
        (-3.5, -4.0, -3.0),
        (-7.5, -8.0, -7.0),
        (6.5, 6.0, 6.0),
        (0.5, 0.0, 0.0),
        (-0.5, 0.0, 0.0),
    ],
)
def test_ties_in_a_table_go_to_the_even_place(x: float, nearest: float, truncated: float):
    assert same(round("int4", x), nearest)
    assert same(round("int4", x, rounding="toward-zero"), truncated)


def test_e8m0_has_neither_zero_nor_sign():
    assert [round("e8m0", x) for x in (0.0, -0.0, 1e-300, 3.0, 6.0)] == [2.0**-127, 2.0**-127, 2.0**-127, 2.0, 8.0]
    assert math.isnan(round("e8m0", -1.0))
    assert math.isnan(round("e8m0", -math.inf))


def test_without_subnormals_the_smallest_normal_is_next_to_zero():
    flush = Format(
        name="flush",
        exponent_bits=4,
        mantissa_bits=3,
        bias=7,
        has_infinity=False,
        nan="none",
        max_value=480.0,
        has_subnormals=False,
    )
    least = flush.min_normal
    assert [round(flush, x * least) for x in (0.5, 0.51, 0.99, 1.0, 1.01)] == [0.0, least, least, least, least]
    assert round(flush, 0.75 * least, rounding="stochastic", bits=3 * 2**30 - 1) == least
    assert round(flush, 0.75 * least, rounding="stochastic", bits=3 * 2**30) == 0.0
    assert decode(flush, 0b0000_101) == 0.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rounding": "nearest"}, "unknown rounding 'nearest'.*did you mean 'nearest-even'"),
        ({"overflow": "wrap"}, "unknown overflow 'wrap'"),
        ({"rounding": "stochastic"}, "got bits=None, expected 32 random bits"),
        ({"rounding": "stochastic", "bits": 2**32}, "expected 32 random bits"),
        ({"bits": 0}, "only stochastic rounding uses them"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        round("e4m3", 1.0, **options)  # type: ignore[arg-type]


@given(st.sampled_from(SMALL), numbers)
def test_nearest_even_is_the_nearest_with_the_even_code(name: str, x: float):
    index, fraction = neighbours(name, x)
    up = fraction > Fraction(1, 2) or (fraction == Fraction(1, 2) and index % 2 == 1)
    assert abs(round(name, x)) == grid(name)[index + up]


def table_neighbours(name: str, x: float) -> tuple[int, int, Fraction]:
    """Places of the numbers at or below and above ``|x|`` on x's side, and the fraction; beyond an end its place."""
    values = [Fraction(value) for value in sorted(get_format(name).values)]
    target = Fraction(x)
    if target <= values[0] or target >= values[-1]:
        place = 0 if target <= values[0] else len(values) - 1
        return place, place, Fraction(0)
    below = bisect_right(values, target) - 1
    above = below if values[below] == target else below + 1
    low, high = (below, above) if x > 0 else (above, below)
    gap = abs(values[high] - values[low]) or 1
    return low, high, (abs(target) - abs(values[low])) / gap


in_tables = st.one_of(numbers, st.floats(min_value=-9, max_value=9), st.integers(-40, 40).map(lambda i: i / 4))


@given(st.sampled_from(TABLES), in_tables)
def test_tables_round_to_the_nearest_and_toward_zero(name: str, x: float):
    values = sorted(get_format(name).values)
    low, high, fraction = table_neighbours(name, x)
    up = fraction > Fraction(1, 2) or (fraction == Fraction(1, 2) and high % 2 == 0)
    assert same(round(name, x), values[high if up else low])
    assert same(round(name, x, rounding="toward-zero"), values[low])
    assert same(decode(name, encode(name, x)) if math.isfinite(x) else 0.0, values[high if up else low])


@given(st.sampled_from(TABLES), in_tables, words)
def test_tables_round_stochastically_below_the_threshold(name: str, x: float, bits: int):
    """The fraction is a quotient of fp64: of what fp32 holds, off by less than 2**-50."""
    values = sorted(get_format(name).values)
    low, high, fraction = table_neighbours(name, x)
    threshold = 2**32 * fraction
    for word in {bits, max(math.floor(threshold) - 2, 0), min(math.floor(threshold) + 2, 2**32 - 1)}:
        if abs(word - threshold) > 1:
            got = round(name, x, rounding="stochastic", bits=word)
            assert same(got, values[high if word < threshold else low])


@given(st.sampled_from(SMALL), numbers)
def test_toward_zero_takes_the_lower_neighbour(name: str, x: float):
    assert abs(round(name, x, rounding="toward-zero")) == grid(name)[neighbours(name, x)[0]]


@given(st.sampled_from(SMALL), numbers, words)
def test_stochastic_rounds_up_below_the_threshold(name: str, x: float, bits: int):
    index, fraction = neighbours(name, x)
    threshold = math.floor(2**32 * fraction)
    for word in {bits, max(threshold - 1, 0), min(threshold, 2**32 - 1)}:
        got = abs(round(name, x, rounding="stochastic", bits=word))
        assert got == grid(name)[index + (word < threshold)]


@given(st.sampled_from((*SIGNED, *TABLES, *UNSIGNED, "e8m0")), numbers, st.sampled_from(ROUNDINGS))
def test_rounding_twice_changes_nothing(name: str, x: float, rounding: str):
    once = round(name, x, rounding=rounding)  # type: ignore[arg-type]
    assert same(round(name, once, rounding=rounding), once)  # type: ignore[arg-type]


@given(st.sampled_from((*SIGNED, *TABLES)), numbers, words)
def test_stochastic_leaves_the_grid_alone(name: str, x: float, bits: int):
    value = round(name, x)
    assert same(round(name, value, rounding="stochastic", bits=bits), value)


@given(st.sampled_from((*SIGNED, *TABLES, *UNSIGNED, "e8m0")), numbers, numbers, st.sampled_from(ROUNDINGS))
def test_rounding_keeps_the_order(name: str, x: float, y: float, rounding: str):
    low, high = sorted((x, y) if name in (*SIGNED, *TABLES) else (abs(x), abs(y)))
    assert round(name, low, rounding=rounding) <= round(name, high, rounding=rounding)  # type: ignore[arg-type]


@given(st.sampled_from(SIGNED), numbers, words)
def test_rounding_ignores_the_sign(name: str, x: float, bits: int):
    assert round(name, -x) == -round(name, x)
    stochastic = round(name, x, rounding="stochastic", bits=bits)
    assert round(name, -x, rounding="stochastic", bits=bits) == -stochastic


@given(st.sampled_from(SIGNED), numbers)
def test_the_error_is_within_the_unit_roundoff(name: str, x: float):
    fmt = get_format(name)
    if abs(x) > fmt.max_value:
        return
    error = abs(Fraction(round(name, x)) - Fraction(x))
    if abs(x) >= fmt.min_normal:
        roundoff = Fraction(fmt.unit_roundoff)
        assert error <= roundoff / (1 + roundoff) * Fraction(abs(x))
    else:
        assert error <= Fraction(fmt.min_subnormal) / 2


@given(st.sampled_from(SIGNED), numbers)
def test_the_stochastic_mean_is_the_number(name: str, x: float):
    """Over all 2**32 words the mean errs by less than 2**-32 of the spacing, always toward zero."""
    fmt = get_format(name)
    if abs(x) > fmt.max_value:
        return
    low = Fraction(abs(round(name, x, rounding="toward-zero")))
    high = Fraction(abs(round(name, x, rounding="stochastic", bits=0)))
    if high == low:  # on the grid, or so near that no word rounds up
        spacing = max(Fraction(fmt.min_subnormal), Fraction(abs(x)) * Fraction(fmt.unit_roundoff) * 2)
        assert Fraction(abs(x)) - low < spacing / 2**32
        return
    lowest, beyond = 0, 2**32  # the words below the threshold round up: bisect for it
    while beyond - lowest > 1:
        middle = (lowest + beyond) // 2
        if abs(round(name, x, rounding="stochastic", bits=middle)) > low:
            lowest = middle
        else:
            beyond = middle
    ups = lowest + 1
    mean = low + (high - low) * Fraction(ups, 2**32)
    assert 0 <= Fraction(abs(x)) - mean < (high - low) / 2**32


def test_registered_formats_are_all_exercised():
    assert set(FORMATS) <= {*SIGNED, *TABLES, *UNSIGNED, "e8m0"}
