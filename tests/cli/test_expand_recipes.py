from __future__ import annotations

import pytest

from mixprec.cli._expand_recipes import expand_recipes
from mixprec.specs import recipe


def names(recipes: str, *sweeps: str, baseline: str = "fp32") -> list[str]:
    given = [recipe(name) for name in recipes.split(",")]
    return [found.name for found in expand_recipes(given, sweeps, baseline)]


def test_sweeps_multiply_and_variants_stand_in_their_recipes_place():
    assert names("fp32,mxfp8,bf16", "fprop.input.rule=floor,ceil", "mxfp8:engine=auto,emulated") == [
        "fp32",
        "mxfp8[fprop.input.rule=floor,engine=auto]",
        "mxfp8[fprop.input.rule=floor,engine=emulated]",
        "mxfp8[fprop.input.rule=ceil,engine=auto]",
        "mxfp8[fprop.input.rule=ceil,engine=emulated]",
        "bf16",
    ]


def test_the_baseline_stays_as_it_is_unless_it_is_named_or_alone():
    assert names("mxfp8,nvfp4", "moments.kind=bf16", baseline="mxfp8") == ["mxfp8", "nvfp4[moments.kind=bf16]"]
    assert names("mxfp8,nvfp4", "mxfp8:moments.kind=bf16", baseline="mxfp8") == ["mxfp8[moments.kind=bf16]", "nvfp4"]
    assert names("mxfp8", "moments.kind=fp32,bf16", baseline="mxfp8") == [
        "mxfp8[moments.kind=fp32]",
        "mxfp8[moments.kind=bf16]",
    ]


@pytest.mark.parametrize(
    ("sweeps", "told"),
    [
        (("rounding",), "expected PATH=VALUE,VALUE"),
        (("=x",), "expected PATH=VALUE,VALUE"),
        (("fprop.input.rule=",), "expected PATH=VALUE,VALUE"),
        (("fprop.input.rule=a,,b",), "expected PATH=VALUE,VALUE"),
        (("fprop.input.rule=ceil,ceil",), "has a value twice"),
        (("fprop.input.rule=ceil", "fprop.input.rule=floor"), "names fprop.input.rule twice for recipe 'mxfp8'"),
        (("fp8:fprop.input.rule=ceil",), "unknown recipe in --sweep fp8:fprop.input.rule=ceil: 'fp8'"),
        (("fp32:fprop.input.rule=ceil",), "it has no cast at fprop.input.rule"),
        (("fprop.input.rul=ceil",), "unknown field of fprop.input: 'rul'"),
    ],
)
def test_what_cannot_be_swept_is_told(sweeps: tuple[str, ...], told: str):
    with pytest.raises(ValueError, match=r".") as caught:
        names("fp32,mxfp8", *sweeps)
    assert told in str(caught.value)
