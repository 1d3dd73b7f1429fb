"""What differs between recipes, field by field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mixprec.specs import (
    LayerPrecision,
    LossScale,
    Moments,
    Phase,
    Recipe,
    Rule,
    recipe,
    recipe_differences,
    recipe_names,
)

MXFP8 = LayerPrecision.uniform("mxfp8")
BASE = Recipe(name="a", rules=(Rule(head=True), Rule(type="Linear", precision=MXFP8), Rule(match="x.*")))


def changed(**fields):
    return recipe_differences(BASE, replace(BASE, **fields))


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != "auto"])
def test_a_recipe_does_not_differ_from_itself_nor_by_its_labels(name):
    one = recipe(name)
    assert recipe_differences(one, Recipe.from_toml(one.to_toml())) == ()
    assert recipe_differences(one, replace(one, name="other", reason="why not")) == ()


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"compute_dtype": "bf16", "weights": "split"}, ("compute_dtype: fp32 -> bf16", "weights: master -> split")),
        ({"moments": Moments(kind="e4m3", block=128)}, ("moments.kind: fp32 -> e4m3", "moments.block: 256 -> 128")),
        (
            {"loss_scale": LossScale(kind="dynamic", initial=2.0**127)},
            ("loss_scale.kind: none -> dynamic", "loss_scale.initial: 65536 -> 1.70141e+38"),
        ),
        ({"rules": BASE.rules[1:]}, ("rules[0]: gone: head=True: compute dtype",)),
        ({"rules": (*BASE.rules, Rule(match="y"))}, ("rules[3]: new: match='y': compute dtype",)),
        ({"rules": (Rule(), *BASE.rules)}, ("rules[0]: new: every layer: compute dtype",)),
        (
            {"rules": (BASE.rules[0], replace(BASE.rules[1], min_size=64), BASE.rules[2])},
            ("rules[1].min_size: not said -> 64",),
        ),
        (
            {"rules": (BASE.rules[0], replace(BASE.rules[1], precision=None), BASE.rules[2])},
            ("rules[1].precision: mxfp8 -> compute dtype",),
        ),
        (
            {
                "rules": (
                    BASE.rules[0],
                    replace(BASE.rules[1], precision=replace(MXFP8, wgrad_input=None)),
                    BASE.rules[2],
                )
            },
            ("rules[1].precision.wgrad_input: mxfp8 -> compute dtype",),
        ),
        ({"phases": (Phase(from_step=3),)}, ("phases[0]: new: 0 rules, from step 3",)),
    ],
)
def test_every_field_is_told(fields, lines):
    assert changed(**fields) == lines


def test_phases_are_told_by_their_parts():
    a, b = (
        replace(BASE, phases=(Phase(last=share, rules=rules),)) for share, rules in ((0.1, ()), (0.2, BASE.rules[:1]))
    )
    assert recipe_differences(a, b) == (
        "phases[0].last: 0.1 -> 0.2",
        "phases[0].rules[0]: new: head=True: compute dtype",
    )


def test_recipes_that_differ_are_told_to():
    names = [name for name in recipe_names() if name != "auto"]
    recipes = {name: recipe(name) for name in names}
    for a in recipes.values():
        for b in recipes.values():
            same = replace(a, name="x", reason="") == replace(b, name="x", reason="")
            assert bool(recipe_differences(a, b)) is not same
