from __future__ import annotations

import pytest

from mixprec.specs import Phase, Recipe, Rule, load_recipe, parse_cast, recipe, recipe_names, sweep_recipe
from mixprec.specs._layer import LayerPrecision


def one(name: str, **values: str) -> Recipe:
    (found,) = sweep_recipe(recipe(name), {path.replace("__", "."): [value] for path, value in values.items()})
    return found


def test_every_combination_is_one_variant_named_for_what_it_sets():
    found = sweep_recipe(recipe("nvfp4"), {"engine": ["auto", "emulated"], "moments.kind": ["fp32", "bf16"]})
    assert [variant.name for variant in found] == [
        "nvfp4[engine=auto,moments.kind=fp32]",
        "nvfp4[engine=auto,moments.kind=bf16]",
        "nvfp4[engine=emulated,moments.kind=fp32]",
        "nvfp4[engine=emulated,moments.kind=bf16]",
    ]
    assert [(v.engine, v.moments.kind) for v in found][1:3] == [("auto", "bf16"), ("emulated", "fp32")]


def test_a_rounding_keeps_the_usual_ratio_usual():
    # Stochastic NVFP4 aims at 16/17 of the largest element, nearest at all of it.
    (nearest,) = sweep_recipe(recipe("nvfp4"), {"wgrad.grad_output.rounding": ["nearest"]})
    precision = nearest.rules[-1].precision
    assert precision is not None
    assert precision.wgrad_grad_output == parse_cast("nvfp4 rht16")
    assert precision.dgrad_grad_output == parse_cast("nvfp4 sr")  # another product is left alone


def test_layers_that_a_recipe_keeps_in_16_bits_stay_so():
    variant = one("nvfp4", wgrad__grad_output__rounding="toward-zero")
    before = recipe("nvfp4")
    assert variant.rules[:2] == before.rules[:2]  # the last blocks and the head in bf16
    assert all(new != old for new, old in zip(variant.rules[2:], before.rules[2:], strict=True))


def test_phases_are_swept_too():
    narrow = Rule(precision=LayerPrecision.uniform("mxfp8"))
    late = Recipe(name="late", rules=(narrow,), phases=(Phase(last=0.2, rules=(narrow,)),))
    (variant,) = sweep_recipe(late, {"fprop.input.rule": ["ceil"]})
    for rules in (variant.rules, variant.phases[0].rules):
        assert rules[0].precision is not None
        assert str(rules[0].precision.fprop_input) == "mxfp8 ceil"
        assert str(rules[0].precision.fprop_weight) == "mxfp8"


def test_a_whole_cast_and_each_kind_of_field():
    assert str(one("mxfp8", fprop__input="mxfp4 sr").rules[-1].precision.fprop_input) == "mxfp4 sr"  # pyright: ignore[reportOptionalMemberAccess]
    fields = {
        "granularity": ("1x16", "e4m3[1x16:e8m0]"),
        "ratio": ("3/4", "mxfp8 x3/4"),
        "element": ("e5m2", "e5m2[1x32:e8m0]"),
        "rule": ("even", "mxfp8 even"),
    }
    for field, (text, expected) in fields.items():
        (variant,) = sweep_recipe(recipe("mxfp8"), {f"wgrad.input.{field}": [text], "wgrad.input.delayed": ["none"]})
        precision = variant.rules[-1].precision
        assert precision is not None
        assert precision.wgrad_input is not None
        got = precision.wgrad_input
        assert getattr(got, field) == getattr(parse_cast(expected), field), field


def test_numbers_of_a_table_are_numbers():
    found = one("fp16", loss_scale__initial="1024", loss_scale__interval="7")
    assert (found.loss_scale.kind, found.loss_scale.initial, found.loss_scale.interval) == ("dynamic", 1024.0, 7)


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != "auto"])
def test_every_recipe_can_be_swept_and_written(name: str):
    (variant,) = sweep_recipe(recipe(name), {"moments.kind": ["bf16"]})
    assert Recipe.from_toml(variant.to_toml()) == variant
    assert variant.rules == recipe(name).rules


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("rounding", "nearest", "unknown field of a recipe: 'rounding': expected one of compute_dtype"),
        ("wgrad", "nearest", "the path ends at 'wgrad': expected one of grad_output, input after it"),
        ("wgrad.weight", "mxfp8", "unknown field of wgrad: 'weight': expected one of grad_output, input"),
        ("wgrad.input.round", "sr", "unknown field of wgrad.input: 'round': expected one of element"),
        ("wgrad.input.rounding.x", "sr", "too long: leave out '.x'"),
        ("wgrad.input.rounding", "up", "unknown rounding 'up': expected one of nearest-even, stochastic"),
        ("wgrad.input.transform", "x", "transform is 'x'"),
        ("wgrad.input.ratio", "1/0", "ratio is '1/0'"),
        ("wgrad.input.delayed", "x", "delayed is 'x'"),
        ("wgrad.input", "mxfp9", "mxfp9"),
        ("weights", "none", "unknown way to keep weights 'none'"),
        ("weights.kind", "none", "too long: leave out '.kind'"),
        ("loss_scale", "none", "expected one of kind, initial"),
        ("moments.kinds", "bf16", "unknown field of moments: 'kinds'"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(path: str, value: str, told: str):
    with pytest.raises(ValueError, match=r"recipe 'nvfp4' with ") as caught:
        sweep_recipe(recipe("nvfp4"), {path: [value]})
    assert told in str(caught.value)


def test_a_recipe_without_the_cast_says_so():
    with pytest.raises(ValueError, match=r"it has no cast at wgrad\.input\.rounding"):
        sweep_recipe(load_recipe("fp32"), {"wgrad.input.rounding": ["stochastic"]})
