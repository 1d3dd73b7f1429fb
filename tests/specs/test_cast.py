"""Casts: the one-line form, its canonical printing, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixprec.formats import BLOCK_FORMATS, FORMATS
from mixprec.specs import Cast, Delayed, Granularity, parse_cast

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
    "nf4",
    "int4 sr",
    "e4m3fnuz",
    "e4m3-ieee propagate",
    "nf4[1x64:fp32]",
    "int4[row] rht64",
    "int8[tensor] rht128-fresh",
    "e4m3[tensor:e8m0] rceil",
    "e4m3fnuz[row:e8m0] ceil sr",
    "e4m3[1x128:fp32]",
    "e4m3[128x128:fp32] x1/2",
    "e2m1[1x16:e4m3]",
    "e2m1[1x16:ue5m3] sr",
    "e2m1[1x16:ue4m3*fp32] rtz",
    "e2m1[1x16:e3m4*fp32]",
    "nvfp4 4/6",
    "nvfp4-2d 4/6",
    "e2m1[1x16:fp32] 4/6",
    "nvfp4 x1/1 sr",
    "nvfp4 x3/4 sr",
    "mxfp4 x3/4 sr rht64-fresh",
    "nvfp4-2d rht16",
    "e4m3[tensor] delayed",
    "e5m2[tensor] delayed(16,recent,2) sr propagate",
    "e4m3[tensor:e8m0] rceil delayed(1)",
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
        ("e2m1[16x16:e4m3*fp32] 4/6", "nvfp4-2d 4/6"),
        ("nvfp4 sr x16/17", "nvfp4 sr"),
        ("e2m1[1x16:ue5m3] sr x16/17", "e2m1[1x16:ue5m3] sr"),
        ("mxfp4 x6/8 sr", "mxfp4 x3/4 sr"),
        ("mxfp4 x1/1", "mxfp4"),
        ("e4m3[tensor] delayed(1024,max,0)", "e4m3[tensor] delayed"),
        ("e4m3[tensor] delayed(16,max)", "e4m3[tensor] delayed(16)"),
        ("e4m3[row:fp32]", "e4m3[row]"),
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
        ratio=Fraction(16, 17),
        rounding="stochastic",
        transform=16,
        signs="fixed",
    )
    assert parse_cast("e4m3[tensor] delayed(16,recent,1)") == Cast(
        element="e4m3",
        granularity=Granularity("tensor"),
        scale="fp32",
        delayed=Delayed(history=16, algorithm="recent", margin=1),
    )
    assert parse_cast("mxfp4 x3/4 sr rht64-fresh").signs == "fresh"
    assert parse_cast("nvfp4 4/6").rule == "four-over-six"
    assert parse_cast("bf16") == Cast(element="bf16", granularity=Granularity("none"), overflow="propagate")
    assert (parse_cast("mxfp8").is_scaled, parse_cast("bf16 sr").is_scaled) == (True, False)
    assert (parse_cast("mxfp8").is_stochastic, parse_cast("bf16 sr").is_stochastic) == (False, True)
    assert [parse_cast(text).is_random for text in ("mxfp8 rht32", "mxfp8 rht32-fresh", "bf16 sr")] == [
        False,
        True,
        True,
    ]


def test_parsing_is_cached():
    assert parse_cast("mxfp8 rceil") is parse_cast("mxfp8 rceil")


elements = st.sampled_from([*FORMATS, "e5m6", "e3m4"])
scales = st.sampled_from([*FORMATS, "e3m4", "e2m5", "e6m1"])
heads = st.one_of(
    elements,
    st.sampled_from(list(BLOCK_FORMATS)),
    st.builds("{}[{}]".format, elements, st.sampled_from(["tensor", "row", "tensor:e8m0", "row:e8m0"])),
    st.builds(
        "{}[{}x{}:{}{}]".format,
        elements,
        st.sampled_from([1, 16, 128]),
        st.sampled_from([8, 16, 32, 128]),
        scales,
        st.sampled_from(["", "*fp32"]),
    ),
)
WORDS = {
    "rule": ["floor", "ceil", "rceil", "even", "exact", "4/6"],
    "ratio": ["x3/4", "x16/17", "x1/1"],
    "delayed": ["delayed", "delayed(16,recent)", "delayed(1,max,3)"],
    "rounding": ["sr", "rne", "rtz"],
    "overflow": ["saturate", "propagate"],
    "transform": ["rht16", "ht64", "rht128-fresh"],
}
words = st.lists(st.sampled_from([word for group in WORDS.values() for word in group]), max_size=3)


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
        ("e4m3fn", "unknown format 'e4m3fn'.*did you mean 'e4m3fnuz' or 'e4m3'"),
        ("mxfp9", "unknown format 'mxfp9'.*did you mean 'mxfp"),
        ("mxfp8 rceill", "unknown word in cast 'mxfp8 rceill': 'rceill'.*did you mean 'rceil'"),
        ("mxfp8 floor ceil", "has 'floor' and 'ceil': give one of them"),
        ("mxfp8 sr sr", "has 'sr' and 'sr'"),
        ("mxfp8[tensor]", "has its block and scale already"),
        ("e4m3[tensor", "begins with 'e4m3\\[tensor'"),
        ("e4m3[]", "expected \\[tensor\\], \\[row\\]"),
        ("e4m3[column]", "expected \\[tensor\\], \\[row\\]"),
        ("e4m3[1x32]", "a block needs the format of its scale"),
        ("e4m3[tensor:e4m3]", "a tensor scale is fp32 or e8m0"),
        ("e4m3[row:ue5m3]", "a row scale is fp32 or e8m0"),
        ("e4m3[row:fp32*fp32]", "a second scale belongs above block scales of few exponent bits"),
        ("e4m3[1x32:e8m0*fp32]", "a second scale belongs above block scales of few exponent bits"),
        ("e4m3[1x32:fp32*fp32]", "a second scale belongs above block scales of few exponent bits"),
        ("e2m1[1x16:e4m3*bf16]", "the tensor scale is 'bf16', expected fp32"),
        ("e2m1[1x16:bf16]", "a block scale of 'bf16' takes 16 bits and is kept in a byte"),
        ("e2m1[1x16:int8]", "'int8' is no format for block scales"),
        ("e2m1[1x16:nf4]", "'nf4' is no format for block scales"),
        ("e2m1[1x16:e3m2]", "'e3m2' has no NaN, which a block's scale needs"),
        ("nf4[1x16:e4m3]", "numbers of 'nf4' have up to 24 significant bits, .*use an fp32 or e8m0 scale"),
        ("fp16[1x16:e4m3*fp32]", "times a scale of 'e4m3' 15, and products of more than 12"),
        ("e4m3[0x32:e8m0]", "each side must be 1 to 4096"),
        ("e4m3[1x8192:e8m0]", "each side must be 1 to 4096"),
        ("fp32[tensor]", "'fp32' has the range of fp32, a scale gains nothing"),
        ("bf16[1x32:e8m0]", "'bf16' has the range of fp32"),
        ("e8m0", "it is a format of scales, without zero or sign"),
        ("ue4m3[tensor]", "it is a format of scales, without sign"),
        ("mxfp8 exact", "rule 'exact' has no meaning for e8m0"),
        ("e4m3[tensor] floor", "rule 'floor' is for e8m0 scales"),
        ("bf16 ceil", "rule 'ceil' is for e8m0 scales"),
        ("nvfp4 even", "rule 'even' is for e8m0 scales"),
        ("mxfp8 propagate", "elements of a block always saturate"),
        ("bf16 rht16", "a transform spreads outliers over what shares a scale"),
        ("mxfp8 4/6", "has no meaning for e8m0"),
        ("e2m1[tensor] 4/6", "about the gap between 4 and 6 of e2m1 blocks"),
        ("e4m3[1x16:fp32] 4/6", "about the gap between 4 and 6 of e2m1 blocks"),
        ("nvfp4 4/6 sr", "compares the errors of rounding to nearest"),
        ("nvfp4 4/6 x3/4", "has its own targets; leave out the ratio"),
        ("e4m3 x3/4", "a ratio is about a scale"),
        ("mxfp4 x5/4", "the ratio is 5/4, expected a fraction above 0 and up to 1"),
        ("mxfp4 x0/4", "the ratio is 0, expected"),
        ("mxfp4 x1/0", "the ratio 'x1/0' has no value"),
        ("mxfp4 x1024/1025", "of a denominator up to 1024"),
        ("mxfp4 x1/2 x3/4", "has 'x1/2' and 'x3/4': give one of them"),
        ("mxfp4 3/4", "unknown word in cast 'mxfp4 3/4': '3/4'.*did you mean 'x3/4'"),
        ("e4m3[row] delayed", "a delayed scale is one for the whole tensor"),
        ("mxfp8 delayed", "a delayed scale is one for the whole tensor"),
        ("e4m3 delayed", "a delayed scale is one for the whole tensor"),
        ("e4m3[tensor] delayed rht16", "without a transform"),
        ("e4m3[tensor] delayed(0)", "history=0.*expected 1 to 1048576"),
        ("e4m3[tensor] delayed(4,max,17)", "margin=17"),
        ("e4m3[tensor] delayed(4,mean)", "unknown algorithm of delayed scaling 'mean'"),
        ("e4m3[tensor] delayed(x)", "cannot be read: expected delayed"),
        ("e4m3[tensor] delayed(4", "cannot be read: expected delayed"),
        ("e4m3[tensor] delayed delayed(4)", "has 'delayed' and 'delayed\\(4\\)'"),
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
    with pytest.raises(ValueError, match="signs need a transform size"):
        Cast(element="e4m3", granularity=plain, signs="fixed")
    with pytest.raises(ValueError, match="unknown signs 'random'"):
        Cast(element="e4m3", granularity=plain, signs="random")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a scaled cast needs the format of its scale"):
        Cast(element="e4m3", granularity=Granularity("tensor"))
    with pytest.raises(ValueError, match="the transform's size is 48"):
        Cast(element="e2m1", granularity=Granularity("block", 1, 16), scale="e4m3", tensor_scale="fp32", transform=48)
    with pytest.raises(ValueError, match="unknown rounding 'up'"):
        Cast(element="e4m3", granularity=plain, rounding="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only 'block' has sizes"):
        Granularity("row", 1, 32)
    with pytest.raises(ValueError, match="unknown granularity 'column'"):
        Granularity("column")  # type: ignore[arg-type]
