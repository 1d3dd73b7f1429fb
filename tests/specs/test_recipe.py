"""Rules, loss scales, recipes and the named recipes."""

from __future__ import annotations

import pytest

from mixprec.specs import LossScale, Recipe, Rule, auto_recipe, recipe, recipe_names


@pytest.mark.parametrize(
    ("rule", "path", "features", "expected"),
    [
        (Rule(), "anything", (3, 5), True),
        (Rule(match=r"blocks.*"), "blocks.3.mlp.fc2", (64, 64), True),
        (Rule(match=r"blocks.*"), "Blocks.3", (64, 64), False),
        (Rule(match=r"blocks.[01].*"), "blocks.2.fc", (64, 64), False),
        (Rule(type="Linear"), "a", (64, 64), True),
        (Rule(type="Lin"), "a", (64, 64), False),
        (Rule(divisible_by=32), "a", (64, 96), True),
        (Rule(divisible_by=32), "a", (64, 100), False),
        (Rule(min_size=64), "a", (64, 96), True),
        (Rule(min_size=65), "a", (64, 96), False),
        (Rule(min_size=65), "a", (), True),
    ],
)
def test_rules_match(rule: Rule, path: str, features: tuple[int, ...], expected: bool):
    assert rule.matches(path, "Linear", features) is expected


def test_the_first_rule_that_matches_wins():
    first, second = Rule(match=r"a.*"), Rule(type="Linear")
    mine = Recipe(name="mine", rules=(first, second))
    assert mine.rule_for("a.fc", "Linear", (8, 8)) is first
    assert mine.rule_for("b.fc", "Linear", (8, 8)) is second
    assert mine.rule_for("b.conv", "Conv2d", (8, 8)) is None


@pytest.mark.parametrize("fields", [{"match": ""}, {"type": ""}, {"divisible_by": 0}, {"min_size": -1}])
def test_senseless_rules_are_refused(fields: dict[str, object]):
    with pytest.raises(ValueError, match="rule"):
        Rule(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "dynamical"}, "did you mean 'dynamic'"),
        ({"initial": 2.0**-30}, "0 < minimum <= initial"),
        ({"initial": float("nan")}, "0 < minimum <= initial"),
        ({"maximum": float("inf")}, "maximum <= 2\\*\\*127"),
        ({"growth": 1.0}, "growth above 1"),
        ({"backoff": 1.0}, "backoff between 0 and 1"),
        ({"interval": 0}, "interval 1 or more"),
    ],
)
def test_senseless_loss_scales_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        LossScale(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "needs a name"),
        ({"compute_dtype": "bf15"}, "unknown compute dtype 'bf15'.*did you mean 'bf16'"),
        ({"residual": "bf16"}, "unknown residual"),
        ({"weights": "kahan"}, "unknown way to keep weights"),
        ({"engine": "emulate"}, "did you mean 'emulated'"),
        ({"weights": "true"}, "expected bf16 or fp16"),
    ],
)
def test_senseless_recipes_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        Recipe(**{"name": "mine", **fields})  # type: ignore[arg-type]


def test_names():
    assert recipe_names() == ("auto", "fp32", "bf16", "fp16", "bf16-true", "fp8", "mxfp8", "mxfp4", "nvfp4")
    assert [recipe(name).name for name in recipe_names()] == list(recipe_names())
    with pytest.raises(ValueError, match=r"unknown recipe 'mxfp88'.*did you mean 'mxfp8'"):
        recipe("mxfp88")


@pytest.mark.parametrize("name", ["fp8", "mxfp8", "mxfp4", "nvfp4"])
def test_narrow_recipes_leave_heads_and_convolutions(name: str):
    narrow = recipe(name)
    assert narrow.compute_dtype == "fp32"
    for path in ("head", "lm_head", "model.lm_head", "heads.head", "classifier", "classifier.3", "cls_head.fc"):
        rule = narrow.rule_for(path, "Linear", (64, 64))
        assert rule is not None
        assert (rule.precision, rule.required) == (None, False)
    for path in ("blocks.0.fc1", "decoder.multihead_attn.out_proj", "attn.heads_proj"):
        rule = narrow.rule_for(path, "Linear", (64, 64))
        assert rule is not None
        assert rule.precision is not None
    assert narrow.rule_for("stem", "Conv2d", (64, 64)) is None


def test_nvfp4_is_the_published_recipe():
    precision = recipe("nvfp4").rules[-1].precision
    assert precision is not None
    assert [str(precision.fprop_input), str(precision.fprop_weight)] == ["nvfp4", "nvfp4-2d"]
    assert [str(precision.dgrad_grad_output), str(precision.dgrad_weight)] == ["nvfp4 sr", "nvfp4-2d"]
    assert [str(precision.wgrad_grad_output), str(precision.wgrad_input)] == ["nvfp4 sr rht16", "nvfp4 rht16"]


def test_16_bit_recipes():
    assert recipe("bf16").loss_scale.kind == "none"
    assert recipe("fp16").loss_scale.kind == "dynamic"
    assert (recipe("bf16-true").weights, recipe("bf16-true").residual) == ("true", "compute")


def test_overrides():
    assert recipe("mxfp8", compute_dtype="bf16").compute_dtype == "bf16"
    assert recipe("bf16", residual="bf16").residual == "compute"
    assert recipe("bf16", name="mine").name == "mine"
    with pytest.raises(ValueError, match="residual is 'fp16'"):
        recipe("bf16", residual="fp16")
    with pytest.raises(ValueError, match=r"unknown recipe field 'compute_type'.*did you mean 'compute_dtype'"):
        recipe("bf16", compute_type="fp16")  # type: ignore[call-arg]


def test_fp16_gets_a_loss_scale_unless_told():
    assert recipe("mxfp8", compute_dtype="fp16").loss_scale.kind == "dynamic"
    static = LossScale(kind="static", initial=8.0)
    assert recipe("mxfp8", compute_dtype="fp16", loss_scale=static).loss_scale == static
    assert recipe("mxfp8", compute_dtype="fp16", loss_scale=LossScale()).loss_scale.kind == "none"


@pytest.mark.parametrize(
    ("native", "expected", "engine", "words"),
    [
        ({"bf16", "fp16"}, "bf16", "auto", "multiplies bf16 natively"),
        ({"fp16"}, "fp16", "auto", "but not bf16"),
        (set[str](), "bf16", "emulated", "neither bf16 nor fp16"),
    ],
)
def test_auto_takes_what_the_device_has(native: set[str], expected: str, engine: str, words: str):
    chosen = auto_recipe(native, "this CPU")
    assert (chosen.name, chosen.compute_dtype, chosen.engine) == (expected, expected, engine)
    assert words in chosen.reason
    assert "this CPU" in chosen.reason
