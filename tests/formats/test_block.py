"""Block formats and the descriptions of all formats."""

from __future__ import annotations

import pytest

from mixprec.formats import BLOCK_ALIASES, BLOCK_FORMATS, FORMATS, describe, get_block_format, get_format
from mixprec.specs import parse_cast


def test_bits_per_element_with_scales():
    assert {name: block.bits_per_element for name, block in BLOCK_FORMATS.items()} == {
        "mxfp8": 8.25,
        "mxfp8-e5m2": 8.25,
        "mxfp6": 6.25,
        "mxfp6-e3m2": 6.25,
        "mxfp4": 4.25,
        "mxint8": 8.25,
        "nvfp4": 4.5,
        "nvfp4-2d": 4 + 8 / 256,
    }


def test_elements_and_scales_are_formats():
    for block in BLOCK_FORMATS.values():
        assert get_format(block.element).bits <= 8
        assert block.scale in FORMATS


def test_aliases_lead_to_block_formats():
    assert get_block_format("mxfp6-e2m3") is get_block_format("mxfp6")
    assert not set(BLOCK_ALIASES) & set(BLOCK_FORMATS)
    with pytest.raises(ValueError, match=r"unknown block format 'mxfp5'.*did you mean"):
        get_block_format("mxfp5")


def test_description_of_a_format():
    facts = describe("e5m2")
    assert (facts.largest, facts.smallest_normal, facts.smallest_subnormal) == (57344.0, 2.0**-14, 2.0**-16)
    assert (facts.values_per_binade, facts.unit_roundoff, facts.finite_values) == (4, 0.125, 247)
    assert facts.special_codes == (("infinity", "S.11111.00"), ("NaN", "S.11111.nonzero"), ("-0", "1.00000.00"))
    assert (facts.block, facts.scale, facts.bits_per_element) == (None, None, 8.0)


def test_description_of_a_block_format():
    facts = describe("nvfp4")
    assert (facts.element, facts.block, facts.scale, facts.tensor_scale) == ("e2m1", (1, 16), "e4m3", "fp32")
    assert (facts.bits_per_element, facts.finite_values) == (4.5, 15)


@pytest.mark.parametrize("name", [*FORMATS, *BLOCK_FORMATS, *BLOCK_ALIASES, "e5m6"])
def test_every_name_has_a_description(name: str):
    facts = describe(name)
    assert facts.name == name
    assert facts.source


def test_finite_values_are_counted_right():
    for name in ("e4m3", "e3m2", "e2m1"):
        fmt = get_format(name)
        assert describe(name).finite_values == 2 * fmt.max_code + 1
    assert describe("int8").finite_values == 255
    assert describe("e8m0").finite_values == 255


def test_what_a_format_does_not_have_is_not_described():
    def known(name: str) -> tuple[object, ...]:
        facts = describe(name)
        return facts.kind, facts.smallest_normal, facts.smallest_subnormal, facts.values_per_binade, facts.unit_roundoff

    assert known("e4m3") == ("float", 2.0**-6, 2.0**-9, 8, 0.0625)
    assert known("ue4m3") == ("float", 2.0**-6, 2.0**-9, 8, 0.0625)
    assert known("int8") == known("mxint8") == ("integer", None, None, None, None)
    assert known("nf4") == known("int4") == ("table", None, None, None, None)
    assert known("e8m0") == ("exponent", 2.0**-127, None, 1, None)
    assert [describe(name).smallest_positive for name in ("e4m3", "int8", "int4", "e8m0")] == [
        *(2.0**-9, 2.0**-6, 1.0, 2.0**-127)
    ]
    assert describe("int4").values == tuple(range(-8, 8))
    assert describe("e4m3").values == ()
    assert [name for name in FORMATS if not describe(name).signed] == ["ue4m3", "ue5m3", "e8m0"]


@pytest.mark.parametrize("name", ["mxfp9", "e9m1", "e1m2", "e4m24"])
def test_unknown_names_are_refused_with_the_limits_of_generic_ones(name: str):
    message = f"unknown format '{name}': expected one of fp32, .*any eXmY \\(X from 2 to 8, Y from 1 to 23\\)"
    for look_up in (describe, get_format, parse_cast):
        with pytest.raises(ValueError, match=message):
            look_up(name)
