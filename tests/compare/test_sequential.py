"""Pairs added until gaps are resolved."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import stdev

import pytest

from mixprec.compare import compare, plan_pairs, recorded
from mixprec.compare._sequential import run_until_resolved
from mixprec.records import (
    ComparisonRecord,
    EvaluationRecord,
    Gap,
    PairPlan,
    Record,
    RunEndRecord,
    TargetRow,
    judge,
    read_records,
    summarize,
    summary_table,
)
from tests.compare.fits import comparison

#: Differences of real runs of a recipe with itself under other rounding seeds: `python -m benchmarks.self_comparisons`.
RECORDED: dict[str, list[float]] = json.loads(Path(__file__).with_name("self_comparisons.json").read_text())
PLAN = plan_pairs(12)


def header(plan: PairPlan, *recipes: str, tolerance: float | None = None) -> ComparisonRecord:
    target = TargetRow(name="quality.loss", limit=tolerance or 0.0, unit="absolute", better="lower")
    return ComparisonRecord(
        workload="w", recipes=("base", *recipes), baseline="base", seeds=(0, 1, 2), steps=10, machine={}, versions={},
        data={}, max_pairs=plan.max_pairs, critical=plan.critical, targets=() if tolerance is None else (target,),
    )  # fmt: skip


def followed(plan: PairPlan, tolerance: float | None = None, **recipes: Callable[[int], float]) -> list[Record]:
    """What a comparison records whose recipes' gaps are these functions of the seed."""

    def train(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Record]:
        for seed in seeds:
            for name in names:
                loss = 2.0 + (recipes[name](seed) if name in recipes else 0.0)
                yield EvaluationRecord(recipe=name, seed=seed, step=10, forward="recipe", metrics={"loss": loss})
                yield RunEndRecord(recipe=name, seed=seed, status="done")

    first = header(plan, *recipes, tolerance=tolerance)
    names = ("base", *recipes)
    return [first, *run_until_resolved(train, first, names, range(plan.max_pairs))]


def pairs(records: Sequence[Record], recipe: str) -> int:
    row = summarize(records).row(recipe)
    assert row is not None
    assert row.loss is not None
    assert row.status == "done"
    return row.loss.gap.seeds


def test_a_baseline_that_fails_in_the_first_look_ends_the_plan():
    def train(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Record]:
        for seed in seeds:
            for name in names:
                yield RunEndRecord(recipe=name, seed=seed, status="failed" if name == "base" else "done")

    first = header(PLAN, "near")
    records = [first, *run_until_resolved(train, first, ("base", "near"), range(PLAN.max_pairs))]
    assert {record.seed for record in records if isinstance(record, RunEndRecord)} == {0, 1, 2}
    notes = summary_table(summarize(records)).notes
    assert "stopped after 3 seeds of at most 12: base failed or diverged in each, so no gap could be paired" in notes


def test_each_recipe_stops_at_the_look_that_resolves_it():
    noise = random.Random(3)
    records = followed(
        PLAN,
        tolerance=0.01,
        far=lambda seed: 1.0 + noise.gauss(0, 0.004),
        near=lambda seed: noise.gauss(0, 0.0015),
        doubtful=lambda seed: 0.01 + noise.gauss(0, 0.004),
        same=lambda seed: 0.0,
    )
    summary = summarize(records)
    assert {verdict.recipe: verdict.outcome for verdict in judge(summary)} == {
        "far": "missed",
        "near": "met",
        "doubtful": "not resolved",
        "same": "met",
    }
    assert {name: pairs(records, name) for name in ("far", "near", "doubtful", "same")} == {
        "far": 3,
        "near": 4,
        "doubtful": 12,
        "same": 3,
    }
    assert [len(record.seeds) for record in records if isinstance(record, ComparisonRecord)] == [3, 4, 6, 8, 12]
    assert len(summary.seeds) == 12


def test_without_a_tolerance_a_gap_is_resolved_against_none():
    noise = random.Random(4)
    records = followed(PLAN, worse=lambda seed: 0.1 + noise.gauss(0, 0.01), same=lambda seed: 0.0)
    assert pairs(records, "worse") < 12
    assert pairs(records, "same") == 3


def signed(values: Sequence[float], draw: random.Random) -> float:
    """A difference that was recorded, or its opposite: which of the two runs came first is a matter of names."""
    return draw.choice(values) * draw.choice((-1, 1))


def is_resolved(plan: PairPlan, gap: Callable[[], float]) -> bool:
    row = summarize(followed(plan, low=lambda seed: gap())).row("low")
    assert row is not None
    assert row.loss is not None
    return row.loss.gap.resolved


def test_of_200_comparisons_of_a_recipe_with_itself_at_most_10_are_resolved():
    draw = random.Random(11)
    found = {
        name: sum(is_resolved(PLAN, lambda own=own: signed(own, draw)) for _ in range(200 // len(RECORDED)))
        for name, own in RECORDED.items()
    }
    assert sum(found.values()) <= 10, found


@pytest.mark.parametrize("law", ["normal", "heavy tails"])
def test_the_same_holds_of_differences_of_a_known_law(law: str):
    draw = random.Random(12)
    laws: dict[str, Callable[[], float]] = {
        "normal": lambda: draw.gauss(0, 0.004),
        # Student's t with 3 degrees of freedom.
        "heavy tails": lambda: 0.004 * draw.gauss(0, 1) / (draw.gammavariate(1.5, 2) / 3) ** 0.5,
    }
    assert sum(is_resolved(PLAN, laws[law]) for _ in range(200)) <= 10


@pytest.mark.parametrize("name", RECORDED)
def test_a_gap_of_two_spreads_is_found_with_the_told_number_of_pairs(name: str):
    own, draw = RECORDED[name], random.Random(13)
    measured = dict(enumerate([*own, *(-value for value in own)]))
    spread = stdev(measured.values())
    budget = Gap(per_seed=measured, plan=PLAN).pairs_needed(2 * spread)
    fixed = Gap(per_seed=measured).pairs_needed(2 * spread)
    assert budget is not None
    assert fixed is not None
    plan = plan_pairs(budget)
    assert sum(is_resolved(plan, lambda: 2 * spread + signed(own, draw)) for _ in range(100)) >= 80
    gaps = [Gap(per_seed={seed: 2 * spread + signed(own, draw) for seed in range(fixed)}) for _ in range(3000)]
    assert sum(gap.resolved for gap in gaps) >= 2400


def test_a_real_comparison_of_a_recipe_with_itself_is_identical(tmp_path: Path):
    from dataclasses import replace

    from mixprec.specs import recipe

    twins = (recipe("mxfp8"), replace(recipe("mxfp8"), name="twin"))
    made = comparison(recipes=twins, seeds=tuple(range(5)), plan=plan_pairs(5))
    summary = summarize(read_records(compare(made, tmp_path / "run") / "records.jsonl"))
    assert summary.seeds == (0, 1, 2), "no look beyond the first"
    row = summary.row("twin")
    assert row is not None
    assert row.loss is not None
    assert row.loss.gap.identical


def test_a_plan_goes_on_where_it_stopped_and_with_its_own_budget_alone(tmp_path: Path):
    made = comparison("fp32", "mxfp8", seeds=tuple(range(4)), plan=plan_pairs(4))
    folder = tmp_path / "run"
    stopped_at = 7
    told: list[Record] = []

    def stop(record: Record) -> None:
        told.append(record)
        if sum(isinstance(one, RunEndRecord) for one in told) == stopped_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(made, folder, on_record=stop)
    compare(made, folder, resume=True)
    whole = compare(made, tmp_path / "whole")
    losses = [
        {
            (record.recipe, record.seed): record.metrics
            for record in read_records(place / "records.jsonl")
            if isinstance(record, EvaluationRecord) and record.step == 6
        }
        for place in (folder, whole)
    ]
    assert losses[0] == losses[1]
    assert recorded(folder).seeds == recorded(whole).seeds
    with pytest.raises(ValueError, match="was run with max_pairs 4, now it is 6"):
        compare(comparison("fp32", "mxfp8", seeds=tuple(range(6)), plan=plan_pairs(6)), folder, resume=True)


def test_a_plan_of_another_number_of_seeds_is_refused():
    with pytest.raises(ValueError, match="at most 12 pairs got 3 seeds"):
        comparison("fp32", "mxfp8", seeds=(0, 1, 2), plan=PLAN)
