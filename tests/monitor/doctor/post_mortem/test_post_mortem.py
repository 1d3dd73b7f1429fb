"""One incident on a page, from a run folder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mixprec.monitor.doctor import with_rule
from mixprec.monitor.doctor.post_mortem import PostMortem, post_mortem
from mixprec.records import RESUMED, RunEndRecord
from mixprec.specs import Recipe, parse_cast, recipe
from tests.monitor.doctor.incidents import WIDENED, escalated, finding, incident, stopped
from tests.monitor.doctor.records import calm, event, folder, step

MINE = replace(recipe("mxfp4"), name="mine")


def told(tmp_path, records, number: int = 1, of: Recipe | None = MINE) -> PostMortem:
    return post_mortem(folder(tmp_path / "run", records, of), number)


def test_the_page_says_what_was_seen_done_and_lost(tmp_path):
    lines = told(tmp_path, escalated(), 2).to_markdown().splitlines()
    assert lines[0] == "# Incident 2 of run"
    assert lines[2] == (
        "Before step 41 of mine, seed 0, the guard saw loss spike at blocks.0.fc (weight) and took the rung escalate: "
        "back to step 36, blocks.0.fc (weight) widened; recovered at step 60; 5 steps and 500 ms lost."
    )
    for name, value in (
        ("seen", "loss spike"),
        ("step", "41"),
        ("site", "blocks.0.fc (weight)"),
        ("rung", "escalate"),
        ("went back to", "step 36"),
        ("batches left out", "39, 40"),
        ("lost steps", "5"),
        ("lost time", "500 ms"),
        ("outcome", "recovered"),
        ("resolved at", "step 60"),
        ("loss", "9.1"),
        ("median", "1.98"),
    ):
        assert f"| {name} | {value} |" in lines


def test_it_fits_on_a_page(tmp_path):
    noisy = [event(41, f"event {n}", "x" * 1000) for n in range(200)]
    many = [incident(n, step=n, batches=tuple(range(500))) for n in range(3, 60)]
    records = [*escalated(), *many]
    records[44:44] = noisy
    lines = told(tmp_path, records, 2).to_markdown().splitlines()
    assert len(lines) < 110
    assert max(map(len, lines)) < 400


def test_the_run_around_it_shows_the_steps_that_going_back_has_replaced(tmp_path):
    rows = told(tmp_path, escalated(), 2).timeline.rows
    whats = [(row[0], row[1]) for row in rows]
    assert whats[:9] == [
        ("36", "replaced later"),
        ("37", "replaced later"),
        ("38", "replaced later"),
        ("39", "replaced later"),
        ("40", "replaced later"),
        ("41", "warning: loss spike: the loss is 9.1"),
        ("41", "incident 2: loss spike, escalate, open"),
        ("41", "incident 1: loss spike, skip, came again at step 41"),
        ("36", "resumed: went back to step 36"),
    ], "what a session tells twice, as finding and as event, is one line"
    assert rows[4][2:] == ("9.1", "31", "–")
    assert whats[9] == ("36", f"widened: {WIDENED}")
    assert whats[14:17] == [("40", "step"), ("41", "step"), ("42", "step")], "its number comes again"
    assert whats[-1] == ("60", "incident 2: loss spike, escalate, recovered at step 60")
    assert whats[17:] == [
        ("", "… 16 steps …"),
        ("59", "step"),
        ("60", "step"),
        ("61", "step"),
        ("", "… 8 steps …"),
        whats[-1],
    ]


def test_a_run_that_went_back_twice_shows_each_step_as_what_became_of_it(tmp_path):
    records = [
        *calm(10),
        incident(1, step=10, back_to=8),
        event(8, RESUMED),
        *calm(2, first=8),
        incident(2, step=10, back_to=8),
        event(8, RESUMED),
        *calm(6, first=8),
    ]
    rows = told(tmp_path, records, 2).timeline.rows
    assert [row[1] for row in rows if row[0] == "9"] == ["replaced later", "replaced later", "step"]


def test_an_incident_without_a_step_around_it_is_told_all_the_same(tmp_path):
    page = told(tmp_path, [incident(1)]).to_markdown()
    assert "| 41 | incident 1: loss spike, rewind, open |  |  |  |" in page
    assert "It is not decided yet" in page


def test_an_incident_that_is_written_again_without_news_is_one_line(tmp_path):
    longer = incident(1, rung="skip", batches=(41, 42))
    records = [incident(1, rung="skip"), step(41), longer, step(41), replace(longer, outcome="recovered", resolved=50)]
    whats = [row[1] for row in told(tmp_path, records).timeline.rows if "incident" in row[1]]
    assert whats == ["incident 1: loss spike, skip, open", "incident 1: loss spike, skip, recovered at step 50"]


def test_linked_incidents_are_told_with_what_they_share(tmp_path):
    records = [
        incident(1, site="blocks.0.fc (input)", trigger="flushed"),
        incident(2),
        incident(3, site="head"),
        incident(4, trigger="noise", site="head"),
    ]
    mortem = told(tmp_path, records, 2)
    assert [(other.number, shared) for other, shared in mortem.linked] == [(1, "same layer"), (3, "same trigger")]
    page = mortem.to_markdown()
    assert "- before, at step 41 (same layer): incident 1: flushed at blocks.0.fc (input); rewind" in page
    assert "- after, at step 41 (same trigger): incident 3: loss spike at head" in page


def test_an_escalation_gives_the_rule_that_the_next_run_starts_with(tmp_path):
    mortem = told(tmp_path, escalated(), 2)
    own = with_rule(MINE, mortem.advice.rule).rules[0]
    assert own.match == "blocks.0.fc"
    assert own.precision is not None
    assert own.precision.fprop_weight == parse_cast("mxfp8 rceil") == own.precision.dgrad_weight
    assert own.precision.fprop_input == parse_cast("mxfp4")
    assert mortem.to_markdown().rstrip().endswith("```")


@pytest.mark.parametrize(
    ("message", "of"), [("blocks.0.fc: something else", MINE), (WIDENED, None), (WIDENED, recipe("mxfp8"))]
)
def test_an_escalation_that_cannot_be_a_rule_is_told_in_words(tmp_path, message, of):
    records = [*calm(3), incident(1, rung="escalate"), event(36, "widened", message, "blocks.0.fc")]
    advice = told(tmp_path, records, of=of).advice
    assert advice.rule == ""
    assert any("Give `blocks.0.fc` the wider casts in the recipe" in sentence for sentence in advice.sentences)


def test_everything_wide_is_the_compute_dtype(tmp_path):
    names = "fprop input, fprop weight, dgrad grad_output, dgrad weight, wgrad grad_output, wgrad input"
    wide = event(36, "widened", f"blocks.0.fc: {names} mxfp4 -> fp32", "blocks.0.fc")
    rule = told(tmp_path, [incident(1, rung="escalate"), wide]).advice.rule
    assert 'precision = "compute"' in rule


def test_what_was_widened_by_another_incident_is_not_this_ones(tmp_path):
    records = [incident(1), incident(2, rung="escalate"), event(36, "widened", WIDENED, "blocks.0.fc")]
    assert told(tmp_path, records, 1).advice.rule == ""
    assert told(tmp_path, records, 2).advice.rule != ""


def test_a_stopped_run_is_told_with_what_remains(tmp_path):
    (tmp_path / "run" / "checkpoints" / "step-00000030").mkdir(parents=True)
    mortem = told(tmp_path, stopped())
    assert mortem.advice.sentences[0].startswith("What remains is the checkpoint of step 30")
    assert 'match = "blocks.0.fc"' in mortem.advice.rule
    assert 'precision = "compute"' in mortem.advice.rule


def test_a_stopped_runs_rule_is_that_of_the_locators_finding(tmp_path):
    rule = '[[rules]]\nmatch = "blocks.0.fc"\nprecision = "compute"\nrequired = false\n'
    located = finding(40, name="overflow", site="blocks.0.fc (output)", rule=rule)
    mortem = told(tmp_path, [*stopped()[:-1], located, stopped()[-1]])
    assert mortem.advice.rule == rule
    assert "as the finding `overflow` of step 40 asks for:\n\n```toml\n" in mortem.to_markdown()
    assert "as the finding `overflow` of step 40 asks for" in mortem.to_markdown()


@pytest.mark.parametrize("site", ["blocks.0.fc.weight", "blocks.0.fc.weight (exp_avg_sq)"])
def test_a_parameter_that_was_overwritten_is_no_matter_of_the_recipe(tmp_path, site):
    end = replace(stopped()[-1], trigger="weight jump", site=site)
    assert told(tmp_path, [*calm(40), end]).advice.rule == ""


def test_what_was_told_after_the_last_step_is_shown(tmp_path):
    end = replace(stopped()[-1], outcome="stopped")
    rows = told(tmp_path, [*calm(40), end, step(40), event(30, RESUMED, "resumed from step 30")]).timeline.rows
    assert [row[1] for row in rows[-2:]] == ["replaced later", "resumed: resumed from step 30"]


def test_a_stop_of_unknown_cause_promises_nothing(tmp_path):
    advice = told(tmp_path, [replace(stopped()[-1], site="", trigger="something")]).advice
    assert advice.sentences[0] == "No checkpoint was saved: the run begins anew."
    assert advice.rule == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rung": "tell"}, "was set to tell only"),
        ({"rung": "clip"}, "taken with a smaller gradient"),
        ({"rung": "scale"}, "start the next run at the scale that held"),
        ({"rung": "skip"}, "Look at the batches that were left out: 39, 40."),
        ({"rung": "rewind"}, "Look at the batches that were left out: 39, 40."),
        ({"rung": "skip", "batches": ()}, "Look at the batch of step 41."),
        ({"outcome": "again"}, "the linked incidents tell"),
        ({"outcome": "rehearsed"}, "This was a rehearsal: nothing was done"),
        ({"rung": "rewind", "batches": ()}, "The same batches were taken again"),
        ({"trigger": "weight jump"}, "a fault of memory or of the device"),
        ({"trigger": "moment not finite"}, "a fault of memory or of the device"),
        ({"trigger": "learning-rate jump"}, "the learning rate's schedule"),
        ({"trigger": "gradients overflow"}, "which gradient is not finite"),
        ({"trigger": "noisy operand"}, "which casts the sampled tensors"),
        ({"trigger": "precision drift"}, "`mixprec plan` finds the layers"),
        ({"trigger": "loss not finite"}, "run --workload FILE --step 41` replays the step"),
        ({"trigger": "loss spike"}, "the learning rate is too high"),
        ({"trigger": "loss scale collapse"}, "which gradient is not finite"),
        ({"trigger": "saturated"}, "which casts the sampled tensors"),
        ({"trigger": "gap to the baseline"}, "`mixprec plan` finds the layers"),
    ],
)
def test_what_to_do_follows_from_rung_trigger_and_outcome(tmp_path, changes, expected):
    assert expected in told(tmp_path, [incident(1, **changes)]).to_markdown()


def test_an_unknown_number_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"run has no incident 9: there are 1, 2"):
        told(tmp_path, escalated(), 9)
    with pytest.raises(ValueError, match=r"no incident 1: no guard has recorded any"):
        told(tmp_path / "calm", calm(3), 1)


def test_of_several_runs_one_must_be_chosen(tmp_path):
    other = incident(1, seed=1, trigger="noise")
    run = folder(tmp_path, [incident(1), other, incident(2, seed=1), incident(4, recipe="b", seed=1)])
    with pytest.raises(ValueError, match=r"in 2 runs of .* \(mine seed 0, mine seed 1\): choose one by --recipe and"):
        post_mortem(run, 1)
    assert post_mortem(run, 1, seed=1, recipe="mine").incident == other
    assert post_mortem(run, 4).incident.recipe == "b", "one alone needs no choice"
    with pytest.raises(ValueError, match=r"has no incident 3: there are 1 of mine seed 0; 1, 2 of mine seed 1; 4 of b"):
        post_mortem(run, 3)
    with pytest.raises(ValueError, match=r"has no run of recipe c seed 5: it has mine seed 0"):
        post_mortem(run, 1, recipe="c", seed=5)


def test_text_of_a_run_is_no_markup(tmp_path):
    records = [
        step(0),
        incident(1, site="<loss>", action="a | b *c* `d`"),
        RunEndRecord(recipe="mine", seed=0, status="done"),
    ]
    page = told(tmp_path, records).to_markdown()
    assert "<loss>" not in page
    assert r"a \| b \*c\* \`d\`" in page
