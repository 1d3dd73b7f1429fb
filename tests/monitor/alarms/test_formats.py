from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from mixprec.monitor import Alarms, Thresholds
from mixprec.records import StatisticsRecord
from mixprec.specs import Recipe, recipe


def record(step: int = 0, **changes: object) -> StatisticsRecord:
    plain = StatisticsRecord(
        recipe="fp8",
        seed=0,
        step=step,
        site="blocks.0.fc",
        role="grad_output",
        cast="e5m2[tensor]",
        in_use=True,
        elements=1000,
        zeros=0.0,
        nonfinite=0,
        amax=2.0,
        flushed=0.01,
        subnormal=0.0,
        saturated=0.0,
        sqnr_db=25.0,
        relative_error=0.05,
        bias=0.0,
        exponents={"0": 1000},
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"flushed": 0.6}, "flushed"), ({"saturated": 0.06}, "saturated"), ({"sqnr_db": 5.0}, "noise")],
)
def test_what_is_beyond_its_limit_is_told_once_with_site_and_evidence(changes: dict[str, float], name: str):
    alarms = Alarms()
    (finding,) = alarms.statistics([record(**changes)])
    assert (finding.name, finding.site, finding.severity) == (name, "blocks.0.fc (grad_output)", "warning")
    assert next(iter(changes.values())) in finding.evidence.values()
    assert alarms.statistics([record(1, **changes)]) == ()


def test_a_gradient_of_zeros_in_fp16_has_vanished():
    (finding,) = Alarms().statistics([record(cast="fp16", zeros=0.96)])
    assert (finding.name, finding.evidence["zeros"]) == ("vanished gradient", 0.96)
    assert Recipe.from_toml(f'name = "mine"\ncompute_dtype = "fp16"\n{finding.rule}').loss_scale.kind == "dynamic"
    quiet = [
        record(cast="fp16", zeros=0.95),
        record(cast="bf16", zeros=1.0),
        record(cast="fp16", role="input", zeros=1),
    ]
    assert Alarms().statistics(quiet) == ()


def test_operands_that_are_not_finite_are_one_event_told_once():
    alarms = Alarms(Thresholds(rearm=20))  # two samples
    bad = [record(role="input"), record(role="input", nonfinite=3), record(site="head", role="weight", nonfinite=1)]
    (finding,) = alarms.statistics(bad)
    assert (finding.name, finding.severity, finding.site) == ("non-finite operand", "fault", "blocks.0.fc (input)")
    assert finding.evidence == {"not finite": 3.0, "tensors": 2.0, "amax": 2.0}
    assert alarms.statistics(bad) == ()
    assert [f for i in range(2) for f in alarms.statistics([record(i, role="input")])] == []
    assert [f.name for f in alarms.statistics(bad)] == ["non-finite operand"]


def test_gradients_that_are_not_finite_are_left_to_the_loss_scale():
    assert Alarms().statistics([record(nonfinite=5), record(in_use=False, role="input", nonfinite=1)]) == ()


def test_below_the_limits_and_what_is_not_in_use_is_silent():
    alarms = Alarms()
    assert alarms.statistics([record(flushed=0.49, saturated=0.049, sqnr_db=6.1)]) == ()
    assert alarms.statistics([record(in_use=False, flushed=0.99, saturated=0.9, sqnr_db=-3.0)]) == ()


def test_a_share_that_rises_is_told_before_its_limit():
    alarms = Alarms()
    assert [f for i in range(6) for f in alarms.statistics([record(i, saturated=0.005)])] == []
    (finding,) = alarms.statistics([record(6, saturated=0.03)])
    assert (finding.name, finding.evidence["before"]) == ("rising saturated", 0.005)
    assert alarms.statistics([record(7, saturated=0.03)]) == ()


def test_it_is_told_again_after_it_has_been_gone():
    alarms = Alarms(Thresholds(rearm=20))  # two samples
    assert len(alarms.statistics([record(flushed=0.9)])) == 1
    assert [f for i in range(2) for f in alarms.statistics([record(i)])] == []
    assert [f.name for f in alarms.statistics([record(3, flushed=0.9)])] == ["flushed"]


def test_the_rule_keeps_the_layer_in_the_compute_dtype():
    (finding,) = Alarms().statistics([record(saturated=0.5)])
    fp8 = recipe("fp8")
    text = finding.rule + "\n" + fp8.to_toml().split("[[rules]]", 1)[1].join(["[[rules]]", ""])
    head = fp8.to_toml().split("[[rules]]", 1)[0]
    rules = Recipe.from_toml(head + text).rules
    assert (rules[0].match, rules[0].precision) == ("blocks.0.fc", None)
    assert rules[1:] == fp8.rules
    assert tomllib.loads(finding.rule)["rules"][0]["match"] == "blocks.0.fc"


def test_tensors_that_no_rule_is_about_have_no_rule():
    (finding,) = Alarms().statistics([record(cast="fp16", flushed=0.9)])
    assert finding.rule == ""


def test_memory_is_bounded_by_the_number_of_tensors():
    alarms = Alarms()
    for i in range(200):
        alarms.statistics([record(i, flushed=0.01 * (i % 3))])
    assert max(len(values) for values in alarms.state_dict()["formats"]["past"].values()) == 16
