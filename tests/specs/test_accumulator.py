"""Narrow accumulators and their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.specs import Accumulator, parse_accumulator


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m14 rtz", Accumulator(mantissa_bits=14)),
        ("m14 rtz promote128", Accumulator(mantissa_bits=14, promote_every=128)),
        ("m10 rne", Accumulator(mantissa_bits=10, rounding="nearest-even")),
        ("m22 rne promote1", Accumulator(mantissa_bits=22, rounding="nearest-even", promote_every=1)),
    ],
)
def test_the_text_says_what_the_fields_say(text: str, expected: Accumulator):
    assert parse_accumulator(text) == expected
    assert str(expected) == text


def test_fp32_is_the_usual_one():
    assert parse_accumulator("fp32") is None
    assert parse_accumulator("  m14   rtz ") == Accumulator(mantissa_bits=14)
    assert parse_accumulator("m14 rtz promote0") == Accumulator(mantissa_bits=14)


@given(st.integers(1, 22), st.sampled_from(["nearest-even", "toward-zero"]), st.integers(0, 10**6))
def test_any_accumulator_survives_its_text(bits: int, rounding: str, promote: int):
    made = Accumulator(mantissa_bits=bits, rounding=rounding, promote_every=promote)  # type: ignore[arg-type]
    assert parse_accumulator(str(made)) == made


@pytest.mark.parametrize(
    "text", ["", "m14", "14 rtz", "m14 up", "m14 rtz promote", "m14 rtz promote-1", "m14 sr", "bf16"]
)
def test_other_texts_cannot_be_read(text: str):
    with pytest.raises(ValueError, match=f"accumulator '{text}' cannot be read: expected 'fp32' or a form like"):
        parse_accumulator(text)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *(({"mantissa_bits": bits}, "expected 1 to 22 bits") for bits in (0, 23, -1, 3.5, True, "14")),
        ({"mantissa_bits": 14, "promote_every": -1}, "0 or more products"),
        ({"mantissa_bits": 14, "promote_every": 1.5}, "0 or more products"),
        (
            {"mantissa_bits": 14, "rounding": "stochastic"},
            "rounding 'stochastic', expected nearest-even or toward-zero",
        ),
    ],
)
def test_senseless_accumulators_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        Accumulator(**fields)  # type: ignore[arg-type]


def test_a_text_with_senseless_numbers_is_refused():
    with pytest.raises(ValueError, match="expected 1 to 22 bits"):
        parse_accumulator("m23 rtz")
