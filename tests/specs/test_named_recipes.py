"""The named recipes: that each is what its source says."""

from __future__ import annotations

import pytest

from mixprec.specs import OPERANDS, Layer, LayerPrecision, Recipe, Rule, recipe, recipe_names

NAMES = (
    *("auto", "fp32", "bf16", "fp16", "bf16-true", "bf16-sr", "bf16-kahan", "bf16-split"),
    *("fp8", "fp8-delayed", "fp8-rowwise", "fp8-rowwise-gw-hp", "fp8-block", "mxfp8", "int8"),
    *("mxfp6", "mxfp4", "mxfp4-backward", "quartet", "nvfp4", "fp4-all-the-way"),
)
NARROW = NAMES[8:]

# The casts of fprop (input, weight), dgrad (grad_output, weight) and wgrad (grad_output, input).
CASTS = {
    "fp8": ("e4m3[tensor]", "e4m3[tensor]", "e5m2[tensor]", "e4m3[tensor]", "e5m2[tensor]", "e4m3[tensor]"),
    "fp8-delayed": (
        *("e4m3[tensor] delayed", "e4m3[tensor] delayed"),
        *("e5m2[tensor] delayed", "e4m3[tensor] delayed"),
        *("e5m2[tensor] delayed", "e4m3[tensor] delayed"),
    ),
    "fp8-rowwise": ("e4m3[row:e8m0] rceil",) * 6,
    "fp8-rowwise-gw-hp": (*("e4m3[row:e8m0] rceil",) * 3, "e4m3[tensor:e8m0] rceil", None, None),
    "fp8-block": (
        *("e4m3[1x128:e8m0] rceil", "e4m3[128x128:e8m0] rceil"),
        *("e4m3[1x128:e8m0] rceil", "e4m3[128x128:e8m0] rceil"),
        *("e4m3[1x128:e8m0] rceil", "e4m3[1x128:e8m0] rceil"),
    ),
    "mxfp8": ("mxfp8 rceil",) * 6,
    "int8": ("int8[row]", "int8[row]", "int8[row] sr", "int8[row]", "int8[row] sr", "int8[row]"),
    "mxfp6": ("mxfp6-e3m2",) * 6,
    "mxfp4": ("mxfp4",) * 6,
    "mxfp4-backward": (None, None, *("mxfp4 x3/4 sr rht64-fresh",) * 4),
    "quartet": (*("mxfp4 quest ht32",) * 2, *("mxfp4 x3/4 sr rht32-fresh",) * 4),
    "nvfp4": ("nvfp4", "nvfp4-2d", "nvfp4 sr", "nvfp4-2d", "nvfp4 sr rht16", "nvfp4 rht16"),
    "fp4-all-the-way": ("nvfp4", "nvfp4", "nvfp4 sr", "nvfp4", "nvfp4 sr", "nvfp4 sr"),
}

MIDDLE = Layer(path="blocks.3.fc1", type="Linear", features=(64, 64), block=3, blocks=12)
LAST = Layer(path="blocks.11.fc1", type="Linear", features=(64, 64), block=11, blocks=12)
HEAD = Layer(path="output", type="Linear", features=(64, 64), blocks=12, is_head=True)
CONVOLUTION = Layer(path="stem", type="Conv2d", features=(64, 64), is_embedding=True)


def casts_of(made: Recipe, layer: Layer) -> tuple[str | None, ...] | None:
    """The six casts that a layer gets; `None` where it stays in the compute dtype."""
    rule = made.rule_for(layer)
    if rule is None or rule.precision is None:
        return None
    casts = [rule.precision.operand(name) for name in OPERANDS]
    return tuple(None if cast is None else str(cast) for cast in casts)


def test_names():
    assert recipe_names() == NAMES
    assert [recipe(name).name for name in NAMES] == list(NAMES)
    assert set(CASTS) == set(NARROW)


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_survives_its_file(name: str):
    made = recipe(name)
    assert Recipe.from_toml(made.to_toml()) == made
    assert Recipe.from_toml(made.to_toml()).to_toml() == made.to_toml()


@pytest.mark.parametrize("name", NARROW)
def test_a_layer_in_the_middle_gets_the_published_casts(name: str):
    assert casts_of(recipe(name), MIDDLE) == CASTS[name]


@pytest.mark.parametrize("name", NARROW)
def test_the_head_is_left_out(name: str):
    assert casts_of(recipe(name), HEAD) == (("bf16",) * 6 if name == "nvfp4" else None)


@pytest.mark.parametrize("name", NARROW)
def test_the_end_is_left_out_where_the_paper_says_so(name: str):
    assert casts_of(recipe(name), LAST) == (("bf16",) * 6 if name == "nvfp4" else CASTS[name])


@pytest.mark.parametrize("name", NARROW)
def test_convolutions_get_casts_that_they_can_multiply(name: str):
    own = {
        "int8": ("int8[tensor]", "int8[tensor]", "int8[tensor] sr", "int8[tensor]", "int8[tensor] sr", "int8[tensor]"),
        "mxfp4-backward": (None, None, *("mxfp4 x3/4 sr",) * 4),
        "quartet": ("mxfp4",) * 6,
        "nvfp4": ("nvfp4", "nvfp4-2d", "nvfp4 sr", "nvfp4-2d", "nvfp4 sr", "nvfp4"),
    }
    assert casts_of(recipe(name), CONVOLUTION) == own.get(name, CASTS[name])


@pytest.mark.parametrize("name", NARROW)
def test_products_of_activations_are_left_out(name: str):
    for kind in ("qk", "pv", "matmul"):
        assert recipe(name).rule_for(Layer(path="blocks.3.attn", type=kind, block=3, blocks=12)) is None


@pytest.mark.parametrize("name", NAMES)
def test_no_recipe_asks_for_a_layer_that_a_model_may_lack(name: str):
    assert not any(rule.required for rule in recipe(name).all_rules)


@pytest.mark.parametrize("name", NAMES)
def test_only_16_bit_recipes_have_rules_of_none(name: str):
    made = recipe(name)
    assert (made.rules == ()) == (name not in NARROW)
    assert made.compute_dtype == (
        "fp16" if name == "fp16" else "bf16" if name.startswith(("auto", "bf16", "mxfp4-backward")) else "fp32"
    )


def test_16_bit_recipes():
    assert [name for name in NAMES if recipe(name).loss_scale.kind != "none"] == ["fp16"]
    assert recipe("fp16").loss_scale.kind == "dynamic"
    assert (recipe("bf16-true").weights, recipe("bf16-true").residual) == ("true", "compute")
    kept = {name: recipe(name).weights for name in NAMES if recipe(name).weights != "master"}
    assert kept == {"bf16-true": "true", "bf16-sr": "stochastic", "bf16-kahan": "kahan", "bf16-split": "split"}


def test_nvfp4_keeps_the_last_blocks_wide():
    for blocks in (1, 2, 6, 7, 14, 40):
        wide = [
            block
            for block in range(blocks)
            if casts_of(recipe("nvfp4"), Layer(path="b", type="Linear", block=block, blocks=blocks)) == ("bf16",) * 6
        ]
        assert wide == list(range(blocks - 15 * blocks // 100, blocks))


def test_what_bf16_casts_multiply_is_bf16():
    assert recipe("nvfp4").rules[0] == Rule(last_blocks=0.15, precision=LayerPrecision.uniform("bf16"), required=False)
