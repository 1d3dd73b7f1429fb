"""What a search is given: losses, and what is barred and why."""

from __future__ import annotations

import math

import pytest

from mixprec.planner import KEEP, Candidate, CandidateScore, GroupScores, LayerTarget, Scores
from mixprec.planner.options import bar_by_format, bar_by_layers, bar_by_shape, candidate_of, make_options
from mixprec.specs import Layer, LayerPrecision, recipe

from ..plan._handmade import model_and_inventory

LOW = Candidate(name="low", precision=LayerPrecision.uniform("mxfp8"))


def group(name: str = "head", *, loss: float = 0.5, dead: bool = False) -> GroupScores:
    return GroupScores(name=name, sites=(name,), candidates={"low": CandidateScore(loss=loss)}, is_dead=dead)


def options_of(*groups: GroupScores, bars=()):
    scores = Scores(loss=1, batches=1, groups=groups, seconds=1, step_seconds=1)
    return make_options(scores, [LOW], seconds=lambda g, c: 2.0, size=lambda g, c: 3, price_per_second=0.5, bars=bars)


def test_keep_is_always_there_and_costs_no_loss():
    kept, low = options_of(group())
    assert (kept.candidate, kept.loss, kept.cost, kept.barred) == (KEEP, 0, 1.0, "")
    assert (low.candidate, low.loss, low.seconds, low.bytes) == ("low", 0.5, 2.0, 3)


def test_what_nothing_is_known_of_is_barred():
    dead = options_of(group(dead=True))[1]
    overflowed = options_of(group(loss=math.inf))[1]
    unmeasured = options_of(GroupScores(name="a", sites=("a",), candidates={}))[1]
    assert "zero in every batch" in dead.barred
    assert "loss change is inf" in overflowed.barred
    assert "not measured" in unmeasured.barred


def test_a_device_without_the_format_is_named():
    bar = bar_by_format("h100", lambda name: name in ("e4m3", "bf16"))
    assert bar(group(), LOW) == "h100 does not multiply mxfp8"
    assert bar(group(), Candidate(name="fp8", precision=LayerPrecision.uniform("e4m3[tensor]"))) == ""
    assert bar(group(), Candidate(name=KEEP)) == ""


@pytest.mark.parametrize(
    ("cast", "needed"),
    [
        ("nvfp4-2d", "nvfp4"),
        ("mxfp6-e3m2 sr", "mxfp6-e3m2"),
        ("e4m3[128x128:fp32]", "e4m3"),
        ("e2m1[tensor]", "e2m1"),
        ("bf16", "bf16"),
    ],
)
def test_a_cast_needs_the_format_that_its_blocks_are_of(cast, needed):
    candidate = Candidate(name="low", precision=LayerPrecision.uniform(cast))
    assert bar_by_format("it", lambda name: False)(group(), candidate) == f"it does not multiply {needed}"


def test_a_recipes_candidate_is_what_most_layers_have():
    assert candidate_of("mxfp8") == Candidate(name="mxfp8", precision=recipe("mxfp8").rules[-1].precision)
    with pytest.raises(ValueError, match="gives casts to no layer"):
        candidate_of("bf16")
    with pytest.raises(ValueError, match="cannot be a candidate: that name"):
        candidate_of(recipe("mxfp8", name=KEEP))


def test_blocks_must_divide_the_features_of_both_products():
    bar = bar_by_shape(model_and_inventory()[1])
    assert bar(group("blocks.0.up"), LOW) == ""
    assert "head has a reduction of 20" in bar(group("head"), LOW)  # that of dgrad


def test_layer_targets_bar_by_any_site_of_a_group():
    layers = {"q": Layer(path="q", type="Linear"), "k": Layer(path="k", type="Linear")}
    both = GroupScores(name="q", sites=("q", "k"), candidates={})
    bar = bar_by_layers([LayerTarget(match="k", candidates=(KEEP,))], layers, [KEEP, "low"])
    assert bar(both, LOW) == "layer target ('k': keep alone) meets k"
    assert bar(both, Candidate(name=KEEP)) == ""
    assert bar(group("q"), LOW) == ""


def test_layer_targets_that_do_nothing_are_refused():
    layers = {"q": Layer(path="q", type="Linear")}
    with pytest.raises(ValueError, match="meets no layer"):
        bar_by_layers([LayerTarget(match="z*", candidates=(KEEP,))], layers, [KEEP])
    with pytest.raises(ValueError, match="names no candidate of this plan"):
        bar_by_layers([LayerTarget(match="q", candidates=("mxfp88",))], layers, [KEEP, "mxfp8"])


def test_refuses_nothing_to_choose_and_names_twice():
    with pytest.raises(ValueError, match="nothing to choose"):
        options_of()
    scores = Scores(loss=1, batches=1, groups=(group(),), seconds=1, step_seconds=1)
    with pytest.raises(ValueError, match="low is named more than once"):
        make_options(scores, [LOW, LOW], seconds=lambda g, c: 1.0, size=lambda g, c: 1)
