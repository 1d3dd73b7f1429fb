"""Throughput over a run: all of a stretch's tokens over all of its seconds, of the runs and steps that are timed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixprec.records import BESIDE, ComparisonRecord, EventRecord, Record, StepRecord, write_records
from mixprec.report import write_report

STEPS = 120


def records(*, seeds: int = 3, tokens: int | None = 100, steps: int = STEPS) -> Iterator[Record]:
    """Seed i takes 1 + i seconds a step; the untimed steps a thousand, the last quarter twice as long."""
    yield ComparisonRecord(
        workload="w", recipes=("fp32", "bf16"), baseline="fp32", seeds=tuple(range(seeds)), steps=steps, machine={},
        versions={}, data={},
    )  # fmt: skip
    for recipe in ("fp32", "bf16"):
        for seed in range(seeds):
            for step in range(steps):
                seconds = 1000.0 if step < 3 else (1.0 + seed) * (2.0 if step >= 0.75 * steps else 1.0)
                yield StepRecord(
                    recipe=recipe, seed=seed, step=step, loss=1.0, seconds=seconds, applied=True, grad_norm=None,
                    loss_scale=None, tokens=tokens,
                )  # fmt: skip


def drawn(folder: Path, found: list[Record]) -> tuple[dict[str, Any] | None, str]:
    folder.mkdir()
    write_records(folder / "records.jsonl", found)
    page = write_report(folder).read_text(encoding="utf-8")
    data = re.search(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
    assert data
    return json.loads(data[1])["throughput"], page


def line(chart: dict[str, Any], recipe: str, kind: str = "rate") -> dict[float, float]:
    (trace,) = [one for one in chart["traces"] if (one["legendgroup"], one["meta"]["kind"]) == (recipe, kind)]
    return dict(zip(trace["x"], trace["y"], strict=True))


def test_it_is_the_median_of_seeds_over_steps(tmp_path: Path) -> None:
    chart, page = drawn(tmp_path / "a", list(records()))
    assert chart is not None
    rates = line(chart, "bf16")
    assert list(rates)[:2] == [2.5, 4.5], "two steps a point; the three untimed steps are in none"
    assert {value for step, value in rates.items() if step < 90} == {50.0}
    assert {value for step, value in rates.items() if step > 90} == {25.0}
    band = next(one for one in chart["traces"] if one["meta"]["kind"] == "band")
    assert (max(band["y"]), min(band["y"])) == (100.0, pytest.approx(16.667))
    assert chart["range"][0] == 0
    assert "Tokens per second over the run</h2>" in page


def test_without_tokens_it_is_steps(tmp_path: Path) -> None:
    chart, page = drawn(tmp_path / "a", list(records(tokens=None, seeds=1)))
    assert chart is not None
    assert line(chart, "fp32")[4.5] == 1.0
    assert "Steps per second over the run</h2>" in page


def test_runs_that_others_ran_beside_are_not_in_it(tmp_path: Path) -> None:
    beside = [
        EventRecord(recipe=recipe, seed=seed, step=0, name=BESIDE, site="", message="others ran beside it")
        for recipe, seed in (("fp32", 0), ("fp32", 1), ("fp32", 2), ("bf16", 0))
    ]
    chart, _ = drawn(tmp_path / "a", [*records(), *beside])
    assert chart is not None
    assert {one["legendgroup"] for one in chart["traces"]} == {"bf16"}
    assert line(chart, "bf16")[4.5] == pytest.approx((100 / 2 + 100 / 3) / 2, rel=1e-4)


def test_a_run_that_is_too_short_has_none(tmp_path: Path) -> None:
    chart, page = drawn(tmp_path / "a", list(records(steps=4)))
    assert chart is None
    assert "per second over the run" not in page
