"""Loss scales, recipes, what may be changed of a named one, and the choice of `auto`."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from mixprec.specs import LossScale, Moments, Phase, Recipe, Rule, auto_recipe, recipe


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
        ({"weights": "kahn"}, "unknown way to keep weights"),
        ({"engine": "emulate"}, "did you mean 'emulated'"),
        ({"weights": "true"}, "expected bf16 or fp16"),
    ],
)
def test_senseless_recipes_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        Recipe(**{"name": "mine", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"loss_scale": "dynamic"}, r"loss_scale is 'dynamic', expected a LossScale, e.g. LossScale\(kind='dynamic'\)"),
        ({"rules": [Rule()]}, r"rules is \[Rule\(.*expected a tuple of Rule"),
        ({"rules": ("mxfp8",)}, r"rules is \('mxfp8',\) \(tuple\), expected a tuple of Rule"),
        ({"phases": Phase(last=0.2)}, "expected a tuple of Phase"),
    ],
)
def test_parts_that_are_none_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(TypeError, match=reason):
        Recipe(**{"name": "mine", **fields})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=reason):
        recipe("bf16", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [3, None, 1.5])
def test_what_is_no_name_is_told_as_it_is(name: object):
    with pytest.raises(ValueError, match=f"unknown recipe '{name}': expected one of auto"):
        recipe(name)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"unknown compute dtype '{name}'"):
        recipe("bf16", compute_dtype=name)  # type: ignore[arg-type]


def test_overrides():
    assert recipe("mxfp8", compute_dtype="bf16").compute_dtype == "bf16"
    assert recipe("bf16", residual="bf16").residual == "compute"
    assert recipe("bf16", name="mine").name == "mine"
    assert recipe("mxfp8", phases=(Phase(last=0.2),)).phases == (Phase(last=0.2),)
    assert recipe("mxfp8", rules=(Rule(),)).rules == (Rule(),)
    with pytest.raises(ValueError, match=r"unknown recipe 'mxfp88'.*did you mean 'mxfp8'"):
        recipe("mxfp88")
    with pytest.raises(ValueError, match="residual is 'fp16'"):
        recipe("bf16", residual="fp16")
    with pytest.raises(ValueError, match=r"unknown recipe field 'compute_type'.*did you mean 'compute_dtype'"):
        recipe("bf16", compute_type="fp16")  # type: ignore[call-arg]


def test_auto_takes_no_compute_dtype():
    with pytest.raises(ValueError, match=r"recipe 'auto' chooses the compute dtype by the device, got .*'fp16'"):
        recipe("auto", compute_dtype="fp16")


def test_fp16_gets_a_loss_scale_unless_told():
    assert recipe("mxfp8", compute_dtype="fp16").loss_scale.kind == "dynamic"
    static = LossScale(kind="static", initial=8.0)
    assert recipe("mxfp8", compute_dtype="fp16", loss_scale=static).loss_scale == static
    assert recipe("mxfp8", compute_dtype="fp16", loss_scale=LossScale()).loss_scale.kind == "none"


def test_fp16_without_a_word_on_the_loss_scale_has_the_default_one():
    dynamic = LossScale(kind="dynamic", initial=2.0**16, growth=2.0, backoff=0.5, interval=2000)
    mine = Recipe(name="mine", compute_dtype="fp16")
    assert mine.loss_scale == recipe("fp16").loss_scale == dynamic
    assert replace(Recipe(name="mine", compute_dtype="bf16"), compute_dtype="fp16").loss_scale == dynamic
    assert replace(mine, name="other").loss_scale == dynamic
    for other in ("fp32", "bf16"):
        assert Recipe(name="mine", compute_dtype=other).loss_scale == LossScale()  # type: ignore[arg-type]


def test_a_word_turns_the_loss_scale_of_fp16_off():
    off = Recipe(name="mine", compute_dtype="fp16", loss_scale=LossScale(kind="none"))
    assert off.loss_scale == replace(off, name="other").loss_scale == LossScale()
    assert off != Recipe(name="mine", compute_dtype="fp16")
    assert copy.deepcopy(off) == pickle.loads(pickle.dumps(off)) == off


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


def test_moments_are_taken_by_their_kind():
    assert recipe("bf16", moments="bf16").moments == Moments(kind="bf16")
    with pytest.raises(ValueError, match="unknown way to keep moments 'fp8'"):
        recipe("bf16", moments="fp8")
