"""What the doctor finds in runs that went wrong in a known way, and that it finds nothing in healthy ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from mixprec.monitor.doctor import diagnose
from mixprec.records import ComparisonRecord, FindingRecord, RunEndRecord
from mixprec.specs import LossScale, recipe
from tests.monitor.doctor.incidents import escalated, incident, stopped
from tests.monitor.doctor.records import calm, coverage, event, folder, skipped, statistics, step, update


def named(path, **options):
    return {found.finding.name: found for found in diagnose(path, **options).findings}


def test_a_healthy_run_has_no_findings(tmp_path):
    diagnosis = diagnose(folder(tmp_path, [*calm(200), statistics(0), update(0), coverage()], recipe("bf16")))
    assert diagnosis.findings == ()
    assert diagnosis.faults == 0
    assert diagnosis.about == ("recipe mine, seed 0: 200 applied steps, loss 2 -> 1.811",)


@pytest.mark.parametrize("seed", range(3))
def test_a_dynamic_loss_scale_that_probes_is_ordinary(tmp_path, seed):
    records, scale = [], 2.0**16
    for n in range(300):
        if n < 4:
            records.append(skipped(0, loss_scale=scale))
            scale /= 2
        records += calm(1, first=n, loss_scale=scale, recipe="fp16", seed=seed) if n >= 4 else []
    records = [replace(r, recipe="fp16", seed=seed) for r in records]
    records.insert(200, skipped(196, loss_scale=scale, recipe="fp16", seed=seed))
    assert diagnose(folder(tmp_path, records, recipe("fp16"))).findings == ()


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite(tmp_path, loss):
    found = named(folder(tmp_path, [*calm(30), skipped(30, loss)]))
    assert found["loss not finite"].finding.severity == "fault"
    assert found["loss not finite"].finding.step == 30


def test_losses_that_nobody_told_are_no_fault(tmp_path):
    assert named(folder(tmp_path, [step(n, math.nan) for n in range(40)])) == {}
    assert named(folder(tmp_path / "some", [*calm(30), step(30, math.nan), *calm(30, first=31)])) == {}


def test_a_loss_spike(tmp_path):
    records = [*calm(40), *(step(n, 4.0) for n in range(40, 60))]
    found = named(folder(tmp_path, records))
    assert found["loss spike"].finding.severity == "warning"
    assert 40 <= found["loss spike"].finding.step <= 45
    assert found["loss spike"].finding.threshold


def test_a_gradient_norm_that_drifts(tmp_path):
    records = [step(n, grad_norm=1.01**n) for n in range(400)]
    assert "gradient-norm drift" in named(folder(tmp_path, records))


def fp16(**changes):
    return replace(recipe("fp16"), name="mine", **changes)


def test_a_loss_scale_at_its_floor(tmp_path):
    scale = LossScale(kind="dynamic", initial=4.0, minimum=1.0)
    records = [*calm(30, loss_scale=4.0), *(skipped(30, loss_scale=s) for s in (4.0, 2.0, 1.0, 1.0))]
    found = named(folder(tmp_path, records, fp16(loss_scale=scale)))["loss scale at floor"]
    assert found.finding.severity == "fault"
    assert found.finding.step == 30
    assert found.finding.evidence == {"loss scale": 1.0, "steps": 2.0}
    assert 'compute_dtype = "bf16"' in found.finding.rule


def test_the_way_out_of_fp16_is_no_remedy_for_a_loss_that_is_nan(tmp_path):
    scale = LossScale(kind="dynamic", initial=4.0, minimum=1.0)
    records = [*calm(30, loss_scale=4.0), *(skipped(30, math.nan, loss_scale=s) for s in (4.0, 2.0, 1.0, 1.0))]
    assert named(folder(tmp_path, records, fp16(loss_scale=scale)))["loss scale at floor"].finding.rule == ""


def test_a_streak_of_skipped_steps_that_share_their_number(tmp_path):
    found = named(folder(tmp_path, [*calm(5), *(skipped(5) for _ in range(8))]))
    assert found["steps skipped in a row"].finding.evidence["skipped"] == 8


def test_a_static_scale_that_skips_many_steps(tmp_path):
    records = [record for n in range(60) for record in (step(n, loss_scale=8.0), *([skipped(n)] if n % 6 == 0 else []))]
    static = fp16(loss_scale=LossScale(kind="static", initial=8.0))
    found = named(folder(tmp_path, records, static))["many skipped steps"]
    assert found.finding.evidence == {"skipped": 10.0, "steps": 70.0}
    assert found.finding.rule == '[loss_scale]\nkind = "dynamic"\n'


def test_what_was_replaced_by_a_resumed_run_is_not_held_against_it(tmp_path):
    records = [*calm(30), skipped(30, math.nan), event(10, "resumed"), *calm(40, first=10)]
    assert named(folder(tmp_path, records)) == {}


def test_a_sampled_tensor_that_holds_nan(tmp_path):
    records = [*calm(3), statistics(0), statistics(2, nonfinite=4), statistics(2, site="head", nonfinite=1)]
    finding = named(folder(tmp_path, records))["non-finite operand"].finding
    assert (finding.severity, finding.step, finding.site) == ("fault", 2, "blocks.0.fc (grad_output)")
    assert "4 of its 4096 elements" in finding.message
    assert "head (grad_output)" in finding.message


def test_a_what_if_is_no_finding(tmp_path):
    assert named(folder(tmp_path, [*calm(3), statistics(in_use=False, flushed=1.0, saturated=1.0, sqnr_db=-3.0)])) == {}


def test_saturation_is_told_over_its_samples(tmp_path):
    records = [statistics(n, saturated=share) for n, share in ((0, 0.0), (100, 0.08), (200, 0.3), (300, 0.2))]
    finding = named(folder(tmp_path, records))["saturated"].finding
    assert (finding.site, finding.step) == ("blocks.0.fc (grad_output)", 100)
    assert {name: finding.evidence[name] for name in ("samples", "median", "worst", "last")} == {
        "samples": 4.0,
        "median": pytest.approx(0.14),
        "worst": 0.3,
        "last": 0.2,
    }


def test_stalled_weights(tmp_path):
    true = replace(recipe("bf16-true"), name="mine")
    found = named(folder(tmp_path, [update(lost=0.9)], true))["stalled weights"].finding
    assert (found.site, found.severity, found.rule) == ("norm.weight", "warning", 'weights = "master"\n')
    told = named(folder(tmp_path / "told", [event(20, "update too small", "0 of 4 moved", "w")], true))
    assert told["stalled weights"].finding.message == "0 of 4 moved"


def test_no_rule_that_the_recipe_has_already(tmp_path):
    found = named(folder(tmp_path, [update(lost=0.9)], replace(recipe("bf16"), name="mine")))
    assert found["stalled weights"].finding.rule == ""


def test_coverage(tmp_path):
    found = named(folder(tmp_path, [coverage(engine="emulated", uncovered=("a (fprop)", "b (fprop)"))]))
    assert found["emulated without gain"].finding.severity == "note"
    assert "a (fprop), b (fprop)" in found["uncovered GEMMs"].finding.message


def recorded(**changes):
    values = {
        "recipe": "mine",
        "seed": 0,
        "step": 7,
        "name": "log of zero",
        "severity": "fault",
        "site": "model.loss",
        "message": "it is",
        "evidence": {"low": 0.0},
        "remedy": "add eps",
        **changes,
    }
    return FindingRecord(**values)


def test_recorded_findings_and_events_are_told(tmp_path):
    records = [recorded(), recorded(name="recorder dump"), event(3, "checkpoint damaged", "half")]
    diagnosis = diagnose(folder(tmp_path, records))
    assert [found.finding.name for found in diagnosis.findings] == ["log of zero", "checkpoint damaged"]
    assert diagnosis.findings[0].finding.remedy == "add eps"


def test_a_rule_that_does_not_read_is_not_told(tmp_path):
    records = [recorded(rule='[[rules]]\nmatch = "a"\nprecision = "no-such-cast"\n')]
    assert named(folder(tmp_path, records))["log of zero"].finding.rule == ""


def test_the_same_is_told_once_over_steps_and_seeds(tmp_path):
    records = [recorded(step=step, seed=seed) for seed in (2, 1) for step in (9, 4, 9)]
    (found,) = diagnose(folder(tmp_path, records)).findings
    assert (found.seeds, found.count, found.finding.step, found.last_step) == ((1, 2), 4, 4, 9)


def test_faults_come_first_and_causes_before_what_follows(tmp_path):
    records = [
        *calm(30),
        *(skipped(30, math.nan) for _ in range(9)),
        recorded(step=30),
        statistics(0, saturated=0.5),
        coverage(engine="emulated"),
    ]
    names = [found.finding.name for found in diagnose(folder(tmp_path, records)).findings]
    assert names[:3] == ["log of zero", "loss not finite", "steps skipped in a row"]
    assert names.index("saturated") < names.index("many skipped steps") < names.index("emulated without gain")


def test_each_recipe_of_a_comparison_is_judged_by_itself(tmp_path):
    header = ComparisonRecord(
        workload="gpt",
        recipes=("good", "bad"),
        baseline="good",
        seeds=(0,),
        steps=30,
        machine={"device": "cuda:0"},
        versions={"torch": "2"},
        data={},
    )
    good = calm(30, recipe="good")
    bad = [*calm(30, recipe="bad"), skipped(30, math.nan, recipe="bad")]
    mixed = [record for pair in zip(good, bad, strict=False) for record in pair]
    ends = [
        RunEndRecord(recipe="good", seed=0, status="done"),
        RunEndRecord(recipe="bad", seed=0, status="diverged", reason="the loss was nan at step 31"),
    ]
    diagnosis = diagnose(folder(tmp_path, [header, *mixed, bad[-1], *ends]))
    assert diagnosis.kind == "comparison"
    assert {(found.recipe, found.finding.name) for found in diagnosis.findings} == {
        ("bad", "loss not finite"),
        ("bad", "run diverged"),
    }


def test_the_json_has_everything_and_no_bare_nan(tmp_path):
    diagnosis = diagnose(folder(tmp_path, [*calm(30), skipped(30, math.nan)]))

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    told = json.loads(diagnosis.to_json(), parse_constant=refuse)
    assert (told["schema"], told["type"], told["faults"]) == (2, "diagnosis", 1)
    (finding,) = told["findings"]
    assert finding["evidence"] == {"loss": "nan"}
    assert {"name", "severity", "site", "message", "threshold", "remedy", "rule", "step", "seeds"} <= finding.keys()


def test_incidents_are_listed_and_those_that_were_not_overcome_are_faults(tmp_path):
    overcome = diagnose(folder(tmp_path / "a", escalated()))
    assert [(told.number, told.outcome) for told in overcome.incidents] == [(1, "again"), (2, "recovered")]
    assert overcome.faults == 0
    assert diagnose(folder(tmp_path / "b", stopped())).faults == 1
    assert diagnose(folder(tmp_path / "c", [*calm(5), incident(1, evidence={"loss": math.nan})])).faults == 1
    told = json.loads(diagnose(tmp_path / "c").to_json())
    assert told["incidents"][0]["batches"] == [39, 40]
    assert told["incidents"][0]["evidence"] == {"loss": "nan"}
    assert told["faults"] == 1


def test_a_resumed_run_keeps_its_incidents(tmp_path):
    diagnosis = diagnose(folder(tmp_path, [*escalated(), event(3, "resumed")]))
    assert [told.number for told in diagnosis.incidents] == [1, 2]
