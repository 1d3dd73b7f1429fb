"""The facts of the named formats, against published tables."""

from __future__ import annotations

import statistics

import pytest

from mixprec.formats import FORMATS, Format, decode, float_format, get_format, is_generic, register, unknown_name

# name: bits, largest, smallest normal, smallest subnormal, unit roundoff, emax of the MX scale rule
TABLE = {
    "fp32": (32, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149, 2.0**-24, 127),
    "tf32": (19, (2 - 2.0**-10) * 2.0**127, 2.0**-126, 2.0**-136, 2.0**-11, 127),
    "bf16": (16, 3.3895313892515355e38, 2.0**-126, 2.0**-133, 2.0**-8, 127),
    "fp16": (16, 65504.0, 2.0**-14, 2.0**-24, 2.0**-11, 15),
    "e5m2": (8, 57344.0, 2.0**-14, 2.0**-16, 2.0**-3, 15),
    "e4m3": (8, 448.0, 2.0**-6, 2.0**-9, 2.0**-4, 8),
    "e4m3-ieee": (8, 240.0, 2.0**-6, 2.0**-9, 2.0**-4, 7),
    "e4m3fnuz": (8, 240.0, 2.0**-7, 2.0**-10, 2.0**-4, 7),
    "e5m2fnuz": (8, 57344.0, 2.0**-15, 2.0**-17, 2.0**-3, 15),
    "e3m2": (6, 28.0, 0.25, 0.0625, 2.0**-3, 4),
    "e2m3": (6, 7.5, 1.0, 0.125, 2.0**-4, 2),
    "e2m1": (4, 6.0, 1.0, 0.5, 2.0**-2, 2),
    "int8": (8, 127 / 64, 1.0, 1 / 64, 2.0**-7, 0),
    "int4": (4, 7.0, 1.0, 1.0, 1 / 14, 2),
    "nf4": (4, 1.0, 0.07958029955625534, 0.07958029955625534, (1.0 - 0.6961928009986877) / 2, 0),
    "ue4m3": (7, 448.0, 2.0**-6, 2.0**-9, 2.0**-4, 8),
    "ue5m3": (8, 114688.0, 2.0**-14, 2.0**-17, 2.0**-4, 16),
    "e8m0": (8, 2.0**127, 2.0**-127, 2.0**-127, 0.5, 127),
}


def facts(fmt: Format) -> tuple[float, ...]:
    return (fmt.bits, fmt.max_value, fmt.min_normal, fmt.min_subnormal, fmt.unit_roundoff, fmt.max_exponent)


def test_the_catalog_is_the_table():
    assert {name: facts(fmt) for name, fmt in FORMATS.items()} == TABLE


def test_every_format_has_a_source():
    assert all(fmt.source for fmt in FORMATS.values())


def test_the_variants_of_e4m3_and_e5m2_are_those_of_their_parameters():
    def numbers(fmt: Format) -> list[str]:
        return [repr(decode(fmt, code)) for code in range(256)]

    assert numbers(get_format("e4m3-ieee")) == numbers(float_format(4, 3))
    assert numbers(get_format("e4m3fnuz")) == numbers(float_format(4, 3, bias=8, nan="negative-zero"))
    assert numbers(get_format("e5m2fnuz")) == numbers(float_format(5, 2, bias=16, nan="negative-zero"))


def test_formats_of_scales_without_sign_are_the_positive_halves():
    assert [repr(decode("ue4m3", code)) for code in range(128)] == [repr(decode("e4m3", code)) for code in range(128)]
    wide = float_format(5, 3, nan="all-ones")
    assert [repr(decode("ue5m3", code)) for code in range(256)] == [repr(decode(wide, code)) for code in range(256)]


def test_nf4_splits_the_normal_distribution_evenly():
    """QLoRA, section 3: quantiles of N(0, 1), 8 of them below zero, 9 from zero on, brought to [-1, 1]."""
    normal = statistics.NormalDist()
    offset = (1 - 1 / (2 * 15) + 1 - 1 / (2 * 16)) / 2
    above = [normal.inv_cdf(offset + (0.5 - offset) * i / 8) for i in range(8)]
    below = [-normal.inv_cdf(offset + (0.5 - offset) * i / 7) for i in range(7)]
    quantiles = sorted([*above, *below, 0.0])
    assert [decode("nf4", code) for code in range(16)] == pytest.approx([q / above[0] for q in quantiles], abs=2e-6)


def test_int4_is_twos_complement():
    assert [decode("int4", code) for code in range(16)] == [*range(8), *range(-8, 0)]


def test_e2m1_is_the_published_grid():
    assert [decode("e2m1", code) for code in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


@pytest.mark.parametrize("name", FORMATS)
def test_the_largest_value_has_the_largest_finite_code(name: str):
    fmt = get_format(name)
    assert decode(fmt, fmt.max_code) == fmt.max_value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_value": 240.0}, "the other facts give 448"),
        ({"has_infinity": True}, "an infinity comes with nan='ieee' only"),
        ({"exponent_bits": 9}, "expected 1 to 8"),
        ({"mantissa_bits": 24}, "expected 0 to 23"),
        ({"nan": "negative-zero", "max_value": 480.0}, "no code is left for -0"),
        ({"bias": -120, "max_value": 448.0 * 2.0**127}, "range of fp32"),
        ({"nan": "ieee", "has_infinity": True, "mantissa_bits": 0}, "at least 1 mantissa bit"),
        ({"values": (0.0, 1.0)}, "only kind 'table' has them"),
        ({"signed": False, "nan": "negative-zero"}, "floats whose NaN is not the code of -0"),
        ({"signed": False}, "no code is left for -0"),
    ],
)
def test_contradicting_facts_are_refused(changes: dict[str, object], reason: str):
    facts: dict[str, object] = {
        "exponent_bits": 4,
        "mantissa_bits": 3,
        "bias": 7,
        "has_infinity": False,
        "nan": "all-ones",
        "max_value": 448.0,
    }
    with pytest.raises(ValueError, match=reason):
        Format(name="wrong", **{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"values": (0.0, 1.0, -1.0)}, "a table of 3 values, 3 of them distinct; expected 4, 8"),
        ({"values": (0.0, 1.0, 1.0, -1.0)}, "4 values, 3 of them distinct"),
        ({"values": (0.5, 1.0, 2.0, -1.0)}, "needs zero, negative and positive values"),
        ({"values": (0.0, 1.0, 2.0, 3.0)}, "needs zero, negative and positive values"),
        ({"values": (0.0, 1.0, 0.1, -1.0)}, "must be values of fp32"),
        ({"max_value": 2.0}, "the largest magnitude of both signs is 1.0"),
        ({"values": (0.0, 2.0**-60, 1.0, -1.0)}, "fp64 cannot hold their middle"),
        ({"mantissa_bits": 1}, "a table has no exponent, mantissa"),
        ({"nan": "all-ones"}, "a table has no exponent, mantissa"),
        ({"has_negative_zero": True}, "a table has no exponent, mantissa"),
    ],
)
def test_contradicting_tables_are_refused(changes: dict[str, object], reason: str):
    facts: dict[str, object] = {
        "kind": "table",
        "exponent_bits": 0,
        "mantissa_bits": 0,
        "bias": 0,
        "has_infinity": False,
        "nan": "none",
        "max_value": 1.0,
        "has_negative_zero": False,
        "values": (0.0, 0.5, 1.0, -1.0),
    }
    Format(name="right", **facts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=reason):
        Format(name="wrong", **{**facts, **changes})  # type: ignore[arg-type]


def test_generic_names_follow_ieee_rules():
    e5m6 = get_format("e5m6")
    assert (e5m6.bits, e5m6.bias, e5m6.max_value, e5m6.has_infinity) == (12, 15, (2 - 2.0**-6) * 2.0**15, True)
    assert facts(get_format("e8m23")) == TABLE["fp32"]
    assert facts(get_format("e5m10")) == TABLE["fp16"]


def test_a_registered_name_comes_before_the_generic_one():
    assert get_format("e4m3").max_value == 448.0
    assert float_format(4, 3).max_value == 240.0


@pytest.mark.parametrize("name", ["e9m1", "e1m2", "e4m0", "e4m24", "e04m3", "E4M3", "e4m3fn", "fp8", ""])
def test_other_names_are_refused(name: str):
    assert not is_generic(name)
    with pytest.raises(ValueError, match=f"unknown format '{name}': expected one of fp32, tf32"):
        get_format(name)


def test_parameters_of_other_families():
    assert float_format(4, 3, bias=8, nan="negative-zero").max_value == 240.0  # e4m3fnuz
    assert float_format(5, 2, bias=16, nan="negative-zero").max_value == 57344.0  # e5m2fnuz
    assert float_format(3, 0, nan="none").max_value == 16.0
    with pytest.raises(ValueError, match="expected 1 to 8 and 0 to 23"):
        float_format(0, 3)


def test_registering_is_append_only():
    assert register(get_format("e4m3")) is get_format("e4m3")
    with pytest.raises(ValueError, match="a different format 'e4m3' is registered already"):
        register(float_format(4, 3))
    with pytest.raises(TypeError):
        FORMATS["mine"] = get_format("e4m3")  # type: ignore[index]


def test_unknown_names_offer_the_nearest():
    error = unknown_name("format", "e4m4", ["e5m2", "e4m3"])
    assert str(error) == "unknown format 'e4m4': expected one of e5m2, e4m3; did you mean 'e4m3'?"
    assert str(unknown_name("format", "xyz", ["e5m2"])) == "unknown format 'xyz': expected one of e5m2"
    error = unknown_name("format", "e4m3fn", ["e4m3", "e4m3fnuz", "e5m2"])
    assert str(error).endswith("did you mean 'e4m3fnuz' or 'e4m3'?")


@pytest.mark.parametrize(
    ("name", "bits"), [("e4m3", 4), ("e2m1", 2), ("int8", 7), ("int4", 3), ("nf4", 24), ("e8m0", 1), ("fp32", 24)]
)
def test_significant_bits_are_those_of_the_longest_number(name: str, bits: int):
    assert get_format(name).significant_bits == bits
