"""Verdicts on targets, from records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mixprec.records import (
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    TargetRow,
    Verdict,
    exit_status,
    figures_table,
    gaps_table,
    headline,
    is_gap_resolved,
    judge,
    result_table,
    summarize,
    summary_table,
    verdicts_table,
    worst_first,
)


def target(name: str, limit: float, unit: str = "absolute", better: str = "lower") -> TargetRow:
    return TargetRow(name=name, limit=limit, unit=unit, better=better)  # type: ignore[typeddict-item]


def runs(gaps: Mapping[str, Sequence[float]], *targets: TargetRow, **changes: Any) -> list[Record]:
    """Baseline and recipe whose metrics differ by these gaps, seed by seed."""
    seeds = range(len(next(iter(gaps.values()))))
    header: dict[str, Any] = {"workload": "w", "recipes": ("fp32", "low"), "baseline": "fp32", "steps": 9}
    facts: dict[str, Any] = {"machine": {}, "versions": {}, "data": {}}
    records: list[Record] = [ComparisonRecord(**header, **facts, seeds=tuple(seeds), targets=targets, **changes)]
    for seed in seeds:
        for recipe in ("fp32", "low"):
            metrics = {name: 2.0 + 0.1 * seed + (own[seed] if recipe == "low" else 0.0) for name, own in gaps.items()}
            records += [
                EvaluationRecord(recipe=recipe, seed=seed, step=9, forward="recipe", metrics=metrics),
                RunEndRecord(recipe=recipe, seed=seed, status="done"),
            ]
    return records


def only(records: Sequence[Record]) -> Verdict:
    (found,) = judge(summarize(records))
    return found


@pytest.mark.parametrize(
    ("limit", "unit", "expected"),
    [
        (0.05, "absolute", "met"),
        (0.02, "absolute", "not resolved"),
        (0.001, "absolute", "missed"),
        (0.025, "relative", "met"),
        (0.0005, "relative", "missed"),
    ],
)
def test_quality_is_judged_by_the_whole_interval(limit: float, unit: str, expected: str):
    verdict = only(runs({"loss": [0.018, 0.020, 0.022]}, target("quality.loss", limit, unit)))
    assert verdict.outcome == expected
    assert verdict.measured == pytest.approx(0.02)
    assert verdict.interval == pytest.approx((0.02 - 4.3027 * 0.002 / 3**0.5, 0.02 + 4.3027 * 0.002 / 3**0.5), rel=1e-4)


def test_a_gap_is_resolved_against_its_target_everywhere():
    near = {"loss": [-0.01, 0.0, 0.012]}
    summary = summarize(runs(near, target("quality.loss", 0.05)))
    low = summary.rows[1]
    assert not low.loss.gap.resolved
    assert is_gap_resolved(low, "loss", summary)
    assert not any("not resolved" in note for note in summary_table(summary).notes)
    gaps = gaps_table(summary)
    assert gaps.rows[0][-1] == "yes"
    assert "resolved: loss against the target, whatever has none against 0" in gaps.notes
    assert not any("would be needed" in note for note in gaps.notes)
    assert next(row for row in figures_table(summary).rows if row[:2] == ("low", "loss"))[-1] == "yes"
    assert "keeps the target at 3 seeds" in headline(low, summary)
    wide = summarize(runs(near, target("quality.loss", 0.001)))
    assert not is_gap_resolved(wide.rows[1], "loss", wide)
    assert "not resolved at 3 seeds: the gap of low" in summary_table(wide).notes


def test_what_is_met_though_runs_failed_says_so():
    records = runs({"loss": [0.018, 0.020, 0.022, 0.02]}, target("quality.loss", 0.5))
    records.append(RunEndRecord(recipe="low", seed=3, status="failed", reason="boom"))
    verdict = only(records)
    assert (verdict.outcome, verdict.reason) == ("met", "met by the others, it failed in 1 of 4 seeds")
    assert (
        "quality.loss of low: met by the others, it failed in 1 of 4 seeds" in verdicts_table(summarize(records)).notes
    )
    assert (
        "loss: mean over 4 seeds (fp32), 3 seeds (low); a gap is of the pairs alone, not the difference of two such "
        "means"
    ) in summary_table(summarize(records)).notes


def test_pairs_are_told_by_recipe_where_they_differ():
    records = [
        replace(one, recipes=("fp32", "low", "few")) if isinstance(one, ComparisonRecord) else one
        for one in runs({"loss": [0.1, 0.2, 0.3]})
    ]
    records += [replace(one, recipe="few") for one in records[1:] if one.recipe == "low" and one.seed < 2]
    notes = summary_table(summarize(records)).notes
    assert notes[0] == (
        "gap: mean ± standard deviation of the loss difference, paired over 3 seeds (low), 2 seeds (few)"
    )
    assert "loss: mean over 3 seeds (fp32, low), 2 seeds (few)" in notes[1]
    assert result_table(summarize(records)).notes == notes[1:2]


@pytest.mark.parametrize(
    ("steps", "seconds", "told"),
    [
        (5, 0.1, "no ratio, for fp32 has no step time to compare with"),
        (1, 0.1, "not told, for the first 3 steps of a run are not timed"),
        (1, math.nan, "not told by the script that was run"),
        (5, math.nan, "not told by the script that was run"),
    ],
)
def test_why_there_is_no_ratio_of_times(steps: int, seconds: float, told: str):
    records: list[Record] = [
        r for r in runs({"loss": [0.0, 0.0]}, target("latency.ratio", 0.5, "ratio")) if not isinstance(r, RunEndRecord)
    ]
    records += [RunEndRecord(recipe="fp32", seed=seed, status="failed", reason="boom") for seed in (0, 1)]
    records += [
        StepRecord(
            recipe="low",
            seed=seed,
            step=step,
            loss=1.0,
            seconds=seconds,
            applied=True,
            grad_norm=None,
            loss_scale=None,
            tokens=None,
        )
        for seed in (0, 1)
        for step in range(steps)
    ]
    summary = summarize(records)
    assert f"step time: {told}" in summary_table(summary).notes
    assert only(records).reason == (
        "no step was timed" if "not told" in told else "fp32 has no step time to compare with"
    )


@pytest.mark.parametrize(("better", "expected"), [("higher", "missed"), ("lower", "met")])
def test_the_direction_decides_what_is_worse(better: str, expected: str):
    fewer = {"loss": [0.0] * 3, "accuracy": [-0.018, -0.020, -0.022]}
    assert only(runs(fewer, target("quality.accuracy", 0.005, better=better))).outcome == expected


def test_what_diverged_misses_its_quality():
    records = runs({"loss": [0.0, 0.001, -0.001]}, target("quality.loss", 0.1))
    records.append(RunEndRecord(recipe="low", seed=2, status="diverged", reason="the loss was nan"))
    verdict = only(records)
    assert (verdict.outcome, verdict.interval, verdict.reason) == ("missed", None, "it diverged under seed 2")


@pytest.mark.parametrize("seeds", [1, 3])
def test_identical_values_keep_any_target(seeds: int):
    assert only(runs({"loss": [0.0] * seeds}, target("quality.loss", 0.0))).outcome == "met"


def test_a_metric_that_nobody_told_is_not_resolved():
    verdict = only(runs({"loss": [0.0] * 3}, target("quality.f1", 0.1)))
    assert (verdict.outcome, verdict.reason) == ("not resolved", "no run told a metric 'f1'")


def test_what_would_resolve_is_told():
    verdict = only(runs({"loss": [0.01, -0.01, 0.012]}, target("quality.loss", 0.01)))
    assert verdict.outcome == "not resolved"
    assert verdict.reason.startswith("about ")
    assert verdict.reason.endswith(" pairs would resolve a gap of 0.01")


def timed(ratios: Sequence[float], engine: str = "native", *targets: TargetRow) -> list[Record]:
    records = runs({"loss": [0.0] * len(ratios)}, *targets)
    for seed, ratio in enumerate(ratios):
        for recipe, seconds in (("fp32", 0.1), ("low", 0.1 * ratio)):
            records += [
                StepRecord(
                    recipe=recipe, seed=seed, step=step, loss=2.0, seconds=seconds, applied=True, grad_norm=None,
                    loss_scale=None, tokens=None,
                )
                for step in range(9)
            ]  # fmt: skip
            row = CoverageRow(site="head", gemm="fprop", format="fp8", engine=engine, flops=1)
            records.append(CoverageRecord(recipe=recipe, seed=seed, rows=(row,), uncovered=()))
    return records


@pytest.mark.parametrize(
    ("ratios", "engine", "expected"),
    [
        ((0.60, 0.61, 0.62), "native", "met"),
        ((0.90, 0.91, 0.92), "native", "missed"),
        ((0.60, 0.80, 0.90), "native", "not resolved"),
        ((0.60,), "native", "not resolved"),
        ((0.60, 0.61, 0.62), "emulated", "not resolved"),
    ],
)
def test_time_is_judged_over_seeds_and_not_where_it_was_emulated(ratios: Sequence[float], engine: str, expected: str):
    assert only(timed(ratios, engine, target("latency.ratio", 0.8, "ratio"))).outcome == expected
    milliseconds = only(timed(ratios, engine, target("latency.milliseconds", 80.0, "milliseconds")))
    assert milliseconds.outcome == expected
    assert milliseconds.measured == pytest.approx(100 * sorted(ratios)[len(ratios) // 2])


@pytest.mark.parametrize(("limit", "unit", "expected"), [(90, "bytes", "met"), (0.8, "share", "missed")])
def test_memory_is_judged_by_its_figure(limit: float, unit: str, expected: str):
    records = runs({"loss": [0.0]}, target(f"memory.{unit}", limit, unit))
    for recipe, peak in (("fp32", 100), ("low", 90)):
        records.append(MemoryRecord(recipe=recipe, seed=0, saved_activation_bytes=1, peak_bytes=peak, rss_bytes=1))
    assert only(records).outcome == expected


def test_cost_is_not_resolved_by_a_run_without_a_price():
    assert only(runs({"loss": [0.0]}, target("cost.largest", 10.0, "price"))).outcome == "not resolved"


def test_the_worst_is_told_first():
    gaps = {
        "loss": [0.001, -0.001, 0.0005],
        "accuracy/rare": [-0.2, -0.21, -0.19],
        "accuracy/all": [-0.01, 0.01, 0.002],
        "f1": [0.1, 0.11, 0.09],
    }
    targets = (target("quality.loss", 0.1), target("quality.accuracy/all", 0.001, better="higher"))
    summary = summarize(runs(gaps, *targets, better={"accuracy": "higher", "f1": "higher"}))
    assert [verdict.target for verdict in judge(summary)] == ["quality.accuracy/all", "quality.loss"]
    assert worst_first(summary.rows[1], summary) == ("accuracy/all", "loss", "accuracy/rare", "f1")
    table = verdicts_table(summary)
    assert table is not None
    assert [row[:3] for row in table.rows] == [
        ("low", "quality.accuracy/all", "not resolved"),
        ("low", "quality.loss", "met"),
    ]
    assert "Targets not resolved: quality.accuracy/all" in headline(summary.rows[1], summary)


def test_the_headline_names_the_metric_that_is_worse_for_sure():
    gaps = {"loss": [0.001, -0.001, 0.0005], "accuracy/rare": [-0.2, -0.21, -0.19], "accuracy/all": [0.0, 0.01, 0.0]}
    summary = summarize(runs(gaps, better={"accuracy": "higher"}))
    told = headline(summary.rows[1], summary)
    assert "Worst of its other metrics is accuracy/rare, −0.2000 (−0.2248 to −0.1752)" in told


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [((), 0), (("met",), 0), (("met", "not resolved"), 3), (("not resolved", "missed", "met"), 1)],
)
def test_exit_statuses(outcomes: Sequence[Any], expected: int):
    assert exit_status(outcomes) == expected
