"""Rules: which layers they are for."""

from __future__ import annotations

import math

import pytest

from mixprec.specs import ACTIVATION_PRODUCTS, Layer, LayerPrecision, Recipe, Rule, recipe


def layer(path: str = "blocks.2.mlp.fc1", type: str = "Linear", **facts: object) -> Layer:
    """The linear layer of the third of twelve blocks, unless said otherwise."""
    known: dict[str, object] = {"features": (64, 256), "block": 2, "blocks": 12}
    return Layer(path=path, type=type, **(known | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        (Rule(), layer("anything", features=(3, 5)), True),
        (Rule(match="blocks.*"), layer("blocks.3.mlp.fc2"), True),
        (Rule(match="blocks.*"), layer("Blocks.3"), False),
        (Rule(match="blocks.[01].*"), layer("blocks.2.fc"), False),
        (Rule(type="Linear"), layer(), True),
        (Rule(type="Lin"), layer(), False),
        (Rule(divisible_by=32), layer(features=(64, 96)), True),
        (Rule(divisible_by=32), layer(features=(64, 100)), False),
        (Rule(divisible_by=32), layer(features=()), True),
        (Rule(min_size=64), layer(features=(64, 96)), True),
        (Rule(min_size=65), layer(features=(64, 96)), False),
        (Rule(min_size=65), layer(features=()), True),
        (Rule(head=True), layer("head", block=None, is_head=True), True),
        (Rule(head=True), layer(), False),
        (Rule(embeddings=True), layer("stem", block=None, is_embedding=True), True),
        (Rule(embeddings=True), layer(), False),
        (Rule(match="*.fc1", type="Linear", divisible_by=64, min_size=64, first_blocks=3), layer(), True),
        (Rule(match="*.fc1", type="Linear", divisible_by=64, min_size=64, first_blocks=2), layer(), False),
    ],
)
def test_all_that_a_rule_asks_must_hold(rule: Rule, asked: Layer, expected: bool):
    assert rule.matches(asked) is expected


@pytest.mark.parametrize(
    ("rule", "blocks", "expected"),
    [
        (Rule(first_blocks=2), 12, [0, 1]),
        (Rule(last_blocks=2), 12, [10, 11]),
        (Rule(last_blocks=0.15), 12, [11]),  # 1.8, rounded down
        (Rule(last_blocks=0.15), 20, [17, 18, 19]),  # 3, and not 2 for 2.9999999999999996
        (Rule(last_blocks=0.15), 6, []),
        (Rule(last_blocks=0.15), 7, [6]),
        (Rule(first_blocks=0.5), 3, [0]),
        (Rule(first_blocks=1), 3, [0]),  # a number, not all of them
        (Rule(first_blocks=1, last_blocks=1), 4, [0, 3]),
        (Rule(first_blocks=9), 3, [0, 1, 2]),
        (Rule(last_blocks=1), 1, [0]),
        (Rule(), 3, [0, 1, 2]),
    ],
)
def test_blocks_are_counted_from_either_end(rule: Rule, blocks: int, expected: list[int]):
    found = [block for block in range(blocks) if rule.matches(layer(block=block, blocks=blocks))]
    assert found == expected


def test_what_stands_outside_of_the_blocks_is_in_none_of_them():
    for rule in (Rule(first_blocks=1), Rule(last_blocks=0.5)):
        assert not rule.matches(layer("head", block=None, is_head=True))
        assert not rule.matches(layer("fc", block=None, blocks=0))


def test_products_of_activations_are_met_by_their_own_type_alone():
    for product in ACTIVATION_PRODUCTS:
        assert not Rule().matches(layer(type=product))
        assert not Rule(match="blocks.*", last_blocks=12).matches(layer(type=product))
        assert Rule(type=product).matches(layer(type=product))
    assert not Rule(type="qk").matches(layer(type="pv"))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule(), False),
        (Rule(match="head", type="Linear", divisible_by=8), False),
        (Rule(head=True), True),
        (Rule(embeddings=True), True),
        (Rule(first_blocks=1), True),
        (Rule(last_blocks=0.5), True),
    ],
)
def test_structural_rules_know_that_they_are(rule: Rule, expected: bool):
    assert rule.is_structural is expected


def test_the_first_rule_that_matches_wins():
    first, second = Rule(match="a.*"), Rule(type="Linear", precision=LayerPrecision.uniform("mxfp8"))
    mine = Recipe(name="mine", rules=(first, second))
    assert mine.rule_for(layer("a.fc")) is first
    assert mine.rule_for(layer("b.fc")) is second
    assert mine.rule_for(layer("b.conv", type="Conv2d")) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"match": ""}, "expected a glob and a class name"),
        ({"type": ""}, "expected a glob and a class name"),
        ({"divisible_by": 0}, "divisible_by=0, expected an integer, 1 or more"),
        ({"divisible_by": 1.5}, "divisible_by=1.5, expected an integer"),
        ({"min_size": -1}, "min_size=-1, expected an integer, 1 or more"),
        ({"min_size": True}, "min_size=True, expected an integer"),
        *(
            ({name: count}, f"{name}={count}, expected a whole number of blocks from 1 on, or a share between 0 and 1")
            for name in ("first_blocks", "last_blocks")
            for count in (0, -1, 1.5, math.nan, math.inf, -math.inf, True, "2")
        ),
    ],
)
def test_senseless_rules_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        Rule(**fields)  # type: ignore[arg-type]


def test_a_structural_recipe_reads_the_model_and_not_its_names():
    precision = recipe("nvfp4").rules[-1].precision
    wide = LayerPrecision.uniform("bf16")
    for block in range(12):
        rule = recipe("nvfp4").rule_for(layer(f"h.{block}.c_fc", block=block))
        assert rule is not None
        assert rule.precision == (wide if block >= 11 else precision)
    head = recipe("nvfp4").rule_for(layer("output", block=None, is_head=True))
    assert head is not None
    assert head.precision == wide
