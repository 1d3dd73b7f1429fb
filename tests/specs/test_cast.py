"""Casts: the one-line form, its canonical printing, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.formats import BLOCK_FORMATS, FORMATS
from mixprec.specs import Cast, Granularity, parse_cast

CANONICAL = [
    "bf16",
    "bf16 saturate",
    "fp32",
    "tf32",
    "e5m6",
    "e4m3",
    "e4m3 propagate",
    "int8",
    "e4m3[tensor]",
    "e5m2[row] sr",
    "fp16[tensor]",
    "mxfp8",
    "mxfp8 rceil",
    "mxfp8-e5m2 even rtz",
    "mxfp4 sr rht32",
    "mxint8 ceil",
    "nvfp4 sr rht16",
    "nvfp4-2d",
    "nvfp4 ht128",
    "e4m3[128x128:e8m0]",
    "e4m3[1x128:e8m0] rceil",
    "e5m6[1x128:e8m0]",
    "e2m1[1x32:e4m3*fp32] ht32",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_forms_print_as_they_are_written(text: str):
    assert str(parse_cast(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("e4m3[1x32:e8m0]", "mxfp8"),
        ("mxfp6-e2m3", "mxfp6"),
        ("e2m1[1x16:e4m3*fp32] sr", "nvfp4 sr"),
        ("e2m1[16x16:e4m3*fp32]", "nvfp4-2d"),
        ("  nvfp4   rht16  sr ", "nvfp4 sr rht16"),
        ("mxfp8 saturate rne floor", "mxfp8"),
        ("e4m3[tensor:fp32] exact", "e4m3[tensor]"),
        ("bf16 propagate", "bf16"),
        ("e4m3 saturate", "e4m3"),
    ],
)
def test_other_forms_become_canonical(text: str, canonical: str):
    assert str(parse_cast(text)) == canonical
    assert parse_cast(text) == parse_cast(canonical)


def test_a_form_says_what_the_fields_say():
    assert parse_cast("nvfp4 sr rht16") == Cast(
        element="e2m1",
        granularity=Granularity("block", 1, 16),
        scale="e4m3",
        tensor_scale="fp32",
        rounding="stochastic",
        transform=16,
        random_signs=True,
    )
    assert parse_cast("bf16") == Cast(element="bf16", granularity=Granularity("none"), overflow="propagate")
    assert (parse_cast("mxfp8").is_scaled, parse_cast("bf16 sr").is_scaled) == (True, False)
    assert (parse_cast("mxfp8").is_stochastic, parse_cast("bf16 sr").is_stochastic) == (False, True)


def test_parsing_is_cached():
    assert parse_cast("mxfp8 rceil") is parse_cast("mxfp8 rceil")


elements = st.sampled_from([*(name for name in FORMATS if name != "e8m0"), "e5m6", "e3m4"])
heads = st.one_of(
    elements,
    st.sampled_from(list(BLOCK_FORMATS)),
    st.builds("{}[{}]".format, elements, st.sampled_from(["tensor", "row"])),
    st.builds(
        "{}[{}x{}:{}]".format,
        elements,
        st.sampled_from([1, 16, 128]),
        st.sampled_from([8, 16, 32, 128]),
        st.sampled_from(["e8m0", "e4m3*fp32"]),
    ),
)
words = st.lists(
    st.sampled_from(
        ["floor", "ceil", "rceil", "even", "exact", "sr", "rne", "rtz", "saturate", "propagate", "rht16", "ht64"]
    ),
    max_size=3,
)


@given(heads, words)
def test_what_parses_prints_and_parses_to_itself(head: str, words: list[str]):
    try:
        cast = parse_cast(" ".join([head, *words]))
    except ValueError:
        return
    assert parse_cast(str(cast)) == cast
    assert str(parse_cast(str(cast))) == str(cast)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "an empty cast"),
        ("e4m3fn", "unknown format 'e4m3fn'.*did you mean 'e4m3'"),
        ("mxfp9", "unknown format 'mxfp9'.*did you mean 'mxfp"),
        ("mxfp8 rceill", "unknown word in cast 'mxfp8 rceill': 'rceill'.*did you mean 'rceil'"),
        ("mxfp8 floor ceil", "has 'floor' and 'ceil': give one of them"),
        ("mxfp8 sr sr", "has 'sr' and 'sr'"),
        ("mxfp8[tensor]", "has its block and scale already"),
        ("e4m3[tensor", "begins with 'e4m3\\[tensor'"),
        ("e4m3[]", "expected \\[tensor\\], \\[row\\]"),
        ("e4m3[column]", "expected \\[tensor\\], \\[row\\]"),
        ("e4m3[1x32]", "a block needs the format of its scale"),
        ("e4m3[tensor:e8m0]", "a tensor scale is fp32"),
        ("e4m3[row:e4m3*fp32]", "a row scale is fp32"),
        ("e4m3[1x32:fp32]", "blocks with fp32 scales are not in this version"),
        ("e4m3[1x32:e8m0*fp32]", "e8m0 alone, or e4m3 under a tensor scale"),
        ("e2m1[1x16:e4m3]", "e8m0 alone, or e4m3 under a tensor scale"),
        ("e4m3[0x32:e8m0]", "each side must be 1 to 4096"),
        ("e4m3[1x8192:e8m0]", "each side must be 1 to 4096"),
        ("fp32[tensor]", "'fp32' has the range of fp32, a scale gains nothing"),
        ("bf16[1x32:e8m0]", "'bf16' has the range of fp32"),
        ("e8m0", "it is a format of scales"),
        ("mxfp8 exact", "rule 'exact' has no meaning for e8m0"),
        ("e4m3[tensor] floor", "rule 'floor' is for e8m0 scales"),
        ("bf16 ceil", "rule 'ceil' is for e8m0 scales"),
        ("nvfp4 even", "rule 'even' is for e8m0 scales"),
        ("mxfp8 propagate", "elements of a block always saturate"),
        ("bf16 rht16", "a transform needs blocks along the reduction"),
        ("e4m3[row] rht16", "a transform needs blocks along the reduction"),
        ("nvfp4-2d rht16", "a transform needs blocks along the reduction"),
        ("e4m3[1x24:e8m0] rht16", "16 and the block's 24 must divide one another"),
        ("mxfp4 rht48", "unknown word in cast"),
    ],
)
def test_refusals_name_the_reason(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        parse_cast(text)


def test_constructors_refuse_what_the_form_cannot_say():
    plain = Granularity("none")
    with pytest.raises(ValueError, match="an unscaled cast has no scale format"):
        Cast(element="e4m3", granularity=plain, scale="fp32")
    with pytest.raises(ValueError, match="random_signs needs a transform size"):
        Cast(element="e4m3", granularity=plain, random_signs=True)
    with pytest.raises(ValueError, match="the transform's size is 48"):
        Cast(element="e2m1", granularity=Granularity("block", 1, 16), scale="e4m3", tensor_scale="fp32", transform=48)
    with pytest.raises(ValueError, match="unknown rounding 'up'"):
        Cast(element="e4m3", granularity=plain, rounding="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only 'block' has sizes"):
        Granularity("row", 1, 32)
    with pytest.raises(ValueError, match="unknown granularity 'column'"):
        Granularity("column")  # type: ignore[arg-type]
