"""Rules of a choice: every layer gets what was chosen, in few rules, and a model takes them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mixprec.nn import convert
from mixprec.planner.options import layers_of
from mixprec.planner.plan import compile_rules
from mixprec.specs import Layer, LayerPrecision, Recipe

from ._handmade import model_and_inventory

LOW, LOWER = LayerPrecision.uniform("mxfp8"), LayerPrecision.uniform("mxfp4")
PATHS = ("a", "a.a", "a.0", "a.0.a", "a.10.a", "b.0.x[1]", "b.1.x[1]", "b.2.x[1]", "a.1.b.a", "*")


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(PATHS), st.sampled_from(("Linear", "Conv2d", "qk", "matmul"))),
        st.sampled_from((None, LOW, LOWER)),
        min_size=1,
    )
)
def test_each_layer_gets_exactly_what_was_chosen(wanted):
    layers = {f"{path}/{kind}": Layer(path=path, type=kind) for path, kind in wanted}
    chosen = {f"{path}/{kind}": precision for (path, kind), precision in wanted.items()}
    rules = compile_rules(layers, chosen)
    recipe = Recipe.from_toml(Recipe(name="made", rules=rules).to_toml())
    for site, layer in layers.items():
        rule = recipe.rule_for(layer)
        assert (None if rule is None else rule.precision) == chosen[site]


def test_what_most_have_is_one_rule_and_a_place_in_all_blocks_another():
    layers = {f"blocks.{i}.{n}": Layer(path=f"blocks.{i}.{n}", type="Linear") for i in range(9) for n in ("up", "down")}
    layers["head"] = Layer(path="head", type="Linear")
    chosen = dict.fromkeys(layers, LOW) | {f"blocks.{i}.down": LOWER for i in range(1, 9)} | {"head": None}
    rules = compile_rules(layers, chosen)
    assert [(rule.match, rule.precision) for rule in rules] == [
        ("blocks.0.down", LOW),
        ("head", None),
        ("blocks.*.down", LOWER),
        ("*", LOW),
    ]


def test_nothing_chosen_is_no_rule():
    layers = {"a": Layer(path="a", type="Linear"), "qk": Layer(path="", type="qk")}
    assert compile_rules(layers, {"a": None}) == ()


def test_products_of_activations_stay_wide_unless_chosen():
    layers = {
        "a": Layer(path="a", type="Linear"),
        "a.qk": Layer(path="a", type="qk"),
        "b.qk": Layer(path="b", type="qk"),
    }
    rules = compile_rules(layers, {"a": LOW, "b.qk": LOWER})
    assert [(rule.match, rule.type, rule.precision) for rule in rules] == [("*", None, LOW), ("b", "qk", LOWER)]


def test_refuses_what_rules_cannot_say():
    layers = {"one": Layer(path="a", type="Linear"), "two": Layer(path="a", type="Linear")}
    with pytest.raises(ValueError, match=r"no rules give a \(Linear\) what was chosen"):
        compile_rules(layers, {"one": LOW, "two": LOWER})
    with pytest.raises(ValueError, match="c was chosen for and is no layer"):
        compile_rules(layers, {"c": LOW})


def test_a_model_converts_by_the_rules_and_each_site_has_its_casts():
    model, inventory = model_and_inventory()
    model.unused = nn.Linear(32, 32)  # no step reaches it: it stays as it is
    layers = layers_of(model, inventory)
    assert layers["head"].is_head
    assert (layers["blocks.2.up"].block, layers["blocks.2.up"].features) == (2, (64, 32))
    chosen = {site: LOW if site.endswith("up") else LOWER for site in layers if site.startswith("blocks")}
    recipe = Recipe(name="made", rules=compile_rules(layers, chosen))
    conversion = convert(model, recipe)
    sites = {
        name: m.__dict__["_mixprec_site"].casts for name, m in model.named_modules() if "_mixprec_site" in m.__dict__
    }
    assert {name: casts.fprop_input.text for name, casts in sites.items()} == {
        site: str(precision.fprop_input) for site, precision in chosen.items()
    }
    conversion.restore()
