"""Plans: an ordinary recipe in a file, with evidence that comes back whole, and reasons that can be read."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mixprec.planner import LayerTarget, Option, search
from mixprec.planner.options import bar_by_layers, bar_by_shape, layers_of, make_options
from mixprec.planner.plan import Asked, Measured, Plan, SiteCheck, explain, plan_of_choice
from mixprec.specs import load_recipe, recipe

from ._handmade import CANDIDATES, model_and_inventory, scores

TIMES = {"keep": 4e-3, "mxfp8": 2e-3, "mxfp4": 1e-3}


def make_plan(limit: float = 0.002, **losses: float) -> Plan:
    model, inventory = model_and_inventory()
    layers, measured = layers_of(model, inventory), scores(**losses)
    bars = [
        bar_by_layers([LayerTarget(match="blocks.0.up", candidates=("keep", "mxfp8"))], layers, ["keep", "mxfp8"]),
        bar_by_shape(inventory),
    ]
    options = make_options(
        measured, CANDIDATES, seconds=lambda g, c: TIMES[c.name], size=lambda g, c: int(1e6 * TIMES[c.name]), bars=bars
    )
    limits = {"loss": limit}
    asked = Asked(name="planned", workload="net.py", hardware="b200", limits=limits, trained_steps=30)
    choice = search(options, limits=limits)
    return plan_of_choice(asked, recipe("bf16"), CANDIDATES, layers, measured, options, choice)


def test_the_file_is_an_ordinary_recipe_and_comes_back_whole(tmp_path):
    plan = make_plan()
    plan = replace(
        plan,
        evidence=replace(
            plan.evidence,
            measured=Measured(
                checks=(SiteCheck(group="head", candidate="keep", predicted=0.0, measured=0.0),),
                gap=0.001,
                pairs=3,
                verdicts={"quality.loss": "met"},
            ),
        ),
    )
    file = tmp_path / "plan.toml"
    file.write_text(plan.to_toml(), encoding="utf-8")
    assert load_recipe(file) == plan.recipe
    assert Plan.load(file) == plan
    assert plan.recipe.compute_dtype == "bf16"


def test_one_site_may_be_asked_for_its_reasons():
    plan = make_plan(blocks_1_up=1e-2)
    text = explain(plan, "blocks.1.up")
    assert text.splitlines()[0].startswith("blocks.1.up: keep, the best that the limits leave: 4 ms at 0 of loss")
    assert "runner-up mxfp8: it would spare 2 ms for 0.01 more loss, with" in text
    assert "* keep: loss +0, 4 ms, 4,000 bytes" in text
    head = explain(plan, "head")
    assert "head: keep, the only one that it may have (mxfp8: head has a reduction of 20, which blocks of 32" in head
    first = explain(plan, "blocks.0.up")
    assert "mxfp4: barred, layer target ('blocks.0.up': keep, mxfp8 alone) meets blocks.0.up" in first


def test_the_whole_plan_is_told_with_what_was_predicted_and_that_it_is_not_validated():
    text = explain(make_plan())
    assert "planned: least seconds on b200 under loss at most 0.002; held back by loss" in text
    assert "(not validated)" in text
    assert "not yet proved" in text
    assert "head: keep" in text


def test_a_site_that_the_plan_has_not_is_told_with_near_ones():
    with pytest.raises(ValueError, match=r"unknown site of this plan: 'blocks.1.upp'.*did you mean 'blocks.1.up'"):
        explain(make_plan(), "blocks.1.upp")


def test_a_recipe_without_evidence_is_no_plan(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(recipe("bf16").to_toml(), encoding="utf-8")
    with pytest.raises(ValueError, match=r"has no table \[plan\]"):
        Plan.load(file)
    file.write_text(make_plan().to_toml().replace('workload = "net.py"', "workload = 3"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"\[plan\] cannot be read at workload"):
        Plan.load(file)


def test_predictions_are_the_sums_of_what_was_chosen():
    plan = make_plan()
    chosen = [group.chosen for group in plan.evidence.groups]
    assert plan.evidence.predicted.loss == pytest.approx(math.fsum(o.loss for o in chosen))
    assert 0 < plan.evidence.predicted.loss <= 0.002
    assert plan.evidence.predicted.keep_seconds == pytest.approx(9 * 4e-3)
    assert all(isinstance(option, Option) for option in chosen)
