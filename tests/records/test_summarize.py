from __future__ import annotations

import math
import re
from collections.abc import Iterable

import pytest

from mixprec.records import (
    RESUMED,
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    EventRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    Status,
    StepRecord,
    group_by_recipe,
    headline,
    metrics_table,
    seeds_table,
    summarize,
    summary_table,
)
from tests.report.run_folder import comparison


def header(recipes: tuple[str, ...] = ("fp32", "bf16"), seeds: tuple[int, ...] = (0, 1, 2), steps: int = 10):
    return ComparisonRecord(
        workload="w", recipes=recipes, baseline=recipes[0], seeds=seeds, steps=steps, machine={}, versions={}, data={}
    )


def evaluation(recipe: str, seed: int, loss: float, step: int = 10, forward: str = "recipe"):
    return EvaluationRecord(recipe=recipe, seed=seed, step=step, forward=forward, metrics={"loss": loss})


def step(recipe: str, seed: int, number: int, seconds: float = 0.1, applied: bool = True):
    return StepRecord(
        recipe=recipe, seed=seed, step=number, loss=2.0, seconds=seconds, applied=applied,
        grad_norm=None, loss_scale=None, tokens=None,
    )  # fmt: skip


def end(recipe: str, seed: int, status: Status = "done", reason: str = ""):
    return RunEndRecord(recipe=recipe, seed=seed, status=status, reason=reason)


def paired(gaps: Iterable[float]) -> list[Record]:
    """Two recipes that end with these gaps."""
    records: list[Record] = [header(seeds=tuple(range(len(list(gaps)))))]
    for seed, gap in enumerate(gaps):
        for recipe, loss in (("fp32", 2.0 + seed), ("bf16", 2.0 + seed + gap)):
            records += [evaluation(recipe, seed, loss), end(recipe, seed)]
    return records


def test_gaps_are_paired_by_seed():
    row = summarize(paired([0.25, 0.5, 0.75])).rows[1]
    assert row.loss is not None
    assert row.loss.gap.per_seed == {0: 0.25, 1: 0.5, 2: 0.75}
    assert (row.loss.mean, row.loss.gap.mean, row.loss.gap.sd) == (3.5, 0.5, 0.25)


def test_one_seed_has_no_spread():
    row = summarize(paired([0.5])).rows[1]
    assert row.loss is not None
    assert (row.loss.gap.mean, row.loss.gap.sd, row.loss.gap.interval, row.loss.gap.resolved) == (
        0.5,
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([0.25, 0.5, 0.75], "not resolved at 3 seeds"),  # t = 4.303 * 0.25 / sqrt(3) = 0.62 > 0.5
        ([0.5, 0.5, 0.625], r"0\.5417 .*above fp32's"),
        ([-0.5, -0.5, -0.625], r"0\.5417 .*below fp32's"),
        ([0.5], "not resolved at 1 seed"),
        ([0.5, 0.625], "not resolved at 2 seeds"),  # t = 12.7 * 0.088 / sqrt(2) = 0.79
        ([0.0, 0.0], "exactly fp32's loss"),
        ([math.nan, 0.5], "no finite gap"),
    ],
)
def test_a_headline_claims_what_the_seeds_can_tell(gaps: list[float], said: str):
    summary = summarize(paired(gaps))
    assert re.search(said, headline(summary.rows[1], summary))


def test_unresolved_gaps_are_named_under_the_table():
    notes = " ".join(summary_table(summarize(paired([0.25, 0.5, 0.75]))).notes)
    assert "not resolved at 3 seeds: the gap of bf16" in notes
    assert "not resolved" not in " ".join(summary_table(summarize(paired([0.5, 0.5, 0.625]))).notes)


def test_times_are_medians_without_the_first_three_steps():
    records: list[Record] = [header(seeds=(0, 1))]
    for seed, factor in ((0, 1.0), (1, 3.0)):
        records += [step("fp32", seed, i, factor * (99.0 if i < 3 else 0.1)) for i in range(8)]
        records += [step("bf16", seed, i, factor * (99.0 if i < 3 else 0.2 if i < 7 else 50.0)) for i in range(8)]
    fp32, bf16 = summarize(records).rows
    assert fp32.time_ratio == 1.0
    assert fp32.step_seconds == pytest.approx(0.2)
    assert bf16.time_ratio == pytest.approx(2.0)


def test_memory_skips_and_shares():
    rows = (
        CoverageRow(site="a", gemm="fprop", format="bf16", engine="emulated", flops=300),
        CoverageRow(site="b", gemm="fprop", format="fp32", engine="native", flops=100),
    )
    records = [
        header(),
        step("bf16", 0, 0),
        step("bf16", 0, 1, applied=False),
        MemoryRecord(recipe="fp32", seed=0, saved_activation_bytes=200, peak_bytes=400, rss_bytes=9),
        MemoryRecord(recipe="bf16", seed=0, saved_activation_bytes=110, peak_bytes=300, rss_bytes=9),
        CoverageRecord(recipe="bf16", seed=0, rows=rows, uncovered=("b (fprop)",)),
    ]
    row = summarize(records).rows[1]
    assert (row.skipped_steps, row.steps) == (1, 2)
    assert (row.saved_activation_bytes, row.saved_ratio, row.peak_ratio) == (110, 0.55, 0.75)
    assert row.flop_shares == {"bf16": 0.75, "fp32": 0.25}
    assert row.engines == {"emulated": 0.75, "native": 0.25}
    assert row.emulated
    assert row.uncovered == ("b (fprop)",)


def test_an_emulated_recipe_says_so_everywhere():
    summary = summarize(comparison(seeds=2, steps=20))
    said = "here: emulated — the time ratio is no promise of speed"
    table = summary_table(summary)
    assert any(note == f"{said} (bf16, mxfp8, nvfp4)" for note in table.notes)
    for row, cells in zip(summary.rows, table.rows, strict=True):
        assert (said in headline(row, summary)) == row.emulated == (row.recipe != "fp32")
        assert ("emulated)" in cells[table.headers.index("step time")]) == row.emulated


def test_without_a_time_there_is_no_talk_of_its_ratio():
    for steps, timed in ((3, False), (4, True)):
        records = comparison(seeds=2, steps=20)
        summary = summarize(r for r in records if not isinstance(r, StepRecord) or r.step < steps)
        table = summary_table(summary)
        assert ("step time" in table.headers) == timed
        text = " ".join([*table.notes, *(headline(row, summary) for row in summary.rows)])
        assert ("time ratio" in text) == timed
        assert ("step time: not told, for the first 3 steps of a run are not timed" in table.notes) != timed
        assert any(note.startswith("here: emulated") and note.endswith("(bf16, mxfp8, nvfp4)") for note in table.notes)
    assert not any("step time" in note for note in summary_table(summarize([header()])).notes)


def test_what_a_resumed_run_replaces_is_forgotten():
    def event(name: str, at: int, seed: int = 0):
        return EventRecord(recipe="bf16", seed=seed, step=at, name=name, site="", message=name)

    records = [
        *(step("bf16", 0, i, applied=i != 4) for i in range(6)),
        *(step("bf16", 1, i) for i in range(6)),
        *(event("note", 0), event("skipped", 4), event("skipped", 5, seed=1)),
        *(evaluation("bf16", 0, 3.0, step=3), evaluation("bf16", 0, 4.0, step=5)),
        event(RESUMED, 3),
        step("bf16", 0, 3),
    ]
    header, by_recipe = group_by_recipe(records)
    own = by_recipe["bf16"]
    assert header.seeds == (0, 1)
    assert {seed: list(steps) for seed, steps in own.steps.items()} == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3, 4, 5]}
    assert [(e.name, e.seed) for e in own.events] == [("note", 0), ("skipped", 1), (RESUMED, 0)]
    assert list(own.evaluations) == [(0, 3, "recipe")]
    assert summarize(records).rows[0].skipped_steps == 0


def test_a_diverged_seed_counts_in_no_metric_and_is_told():
    records = [*paired([0.5, 0.5, 0.5])]
    records[-1] = end("bf16", 2, "diverged", "the loss was nan at step 7")
    summary = summarize(records)
    row = summary.rows[1]
    assert row.status == "diverged"
    assert row.loss is not None
    assert sorted(row.loss.per_seed) == [0, 1]
    assert headline(row, summary).startswith("diverged in 1 of 3 seeds (the loss was nan at step 7); where it did not")
    assert summary_table(summary).rows[1][1] == "1 of 3 diverged"


def test_a_recipe_that_failed_everywhere_claims_nothing():
    records = [header(seeds=(0,)), evaluation("fp32", 0, 2.0), end("bf16", 0, "failed", "ValueError: bad shape")]
    summary = summarize(records)
    assert summary.rows[1].loss is None
    assert headline(summary.rows[1], summary) == "failed in its one seed (ValueError: bad shape)."


def test_an_interrupted_comparison_is_compared_where_both_were_evaluated():
    records = [
        header(seeds=(0,)),
        *(evaluation(name, 0, loss, step=5) for name, loss in (("fp32", 2.0), ("bf16", 2.5))),
        evaluation("fp32", 0, 1.0),
        end("bf16", 0, "interrupted", "stopped by the user"),
    ]
    summary = summarize(records)
    row = summary.rows[1]
    assert row.loss is not None
    assert (row.status, row.evaluated_at, row.loss.gap.per_seed) == ("interrupted", 5, {0: 0.5})
    assert "after 5 of 10 steps" in headline(row, summary)
    assert "after 5 of 10 steps: the loss of bf16" in summary_table(summary).notes


@pytest.mark.parametrize("kept", [0, 1, 2, 5, 30, 100, 250])
def test_any_beginning_of_a_comparison_can_be_shown(kept: int):
    records = list(comparison(seeds=2, steps=40))[:kept]
    summary = summarize(records)
    for row in summary.rows:
        assert headline(row, summary)
    assert len(summary_table(summary).rows) == len(seeds_table(summary).rows) / 2 == len(summary.rows)
    metrics_table(summary)


def test_infinite_metrics_are_shown():
    summary = summarize(paired([math.inf, 1.0]))
    assert summary_table(summary).rows[1][1] == "∞"


def test_other_metrics_and_slices():
    table = metrics_table(summarize(comparison(seeds=3, steps=20)))
    assert table is not None
    assert [row[0] for row in table.rows] == ["loss/code", "accuracy", "loss/prose"], "the worst first"
    assert table.headers == ("metric", "fp32", "bf16", "mxfp8", "nvfp4")
