"""What the page says first, and what it says that it cannot tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mixprec.records import (
    BESIDE,
    ComparisonRecord,
    EvaluationRecord,
    EventRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    TargetRow,
    summarize,
    write_records,
)
from mixprec.report import write_report

HEADER = ComparisonRecord(
    workload="my file.py",
    recipes=("fp32", "bf16"),
    baseline="fp32",
    seeds=(0, 1, 2),
    steps=10,
    machine={"threads": 2, "device": "cuda:0"},
    versions={"torch": "2.13.0"},
    data={},
)


def page(folder: Path, records: Iterable[Record]) -> str:
    folder.mkdir()
    write_records(folder / "records.jsonl", records)
    text = write_report(folder).read_text(encoding="utf-8").replace("\u00a0", " ")
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


def limits(text: str) -> str:
    return text.partition("What this run cannot tell")[2].partition("</aside>")[0]


def evaluations(gaps: Iterable[float], **metrics: float) -> Iterator[Record]:
    for seed, gap in enumerate(gaps):
        for recipe, loss in (("fp32", 2.0), ("bf16", 2.0 + gap)):
            own = {"loss": loss} | (metrics if recipe == "fp32" else {})
            yield EvaluationRecord(recipe=recipe, seed=seed, step=10, forward="recipe", metrics=own)
            yield RunEndRecord(recipe=recipe, seed=seed, status="done")


def memory(recipe: str, saved: int) -> MemoryRecord:
    return MemoryRecord(
        recipe=recipe,
        seed=0,
        saved_activation_bytes=saved,
        peak_bytes=1,
        rss_bytes=1,
        parameters=5000,
        bytes_by_kind={"weights": 20_000},
    )


# Student's t at 2 degrees of freedom is 4.303, so three pairs of this spread reach 4.303 * 0.01 / sqrt(3) = 0.025.
@pytest.mark.parametrize(
    ("gaps", "says"),
    [
        ((-0.01, 0.0, 0.01), "no gap in loss resolved at ±0.025 with 3 pairs; activations 0.28×."),
        ((0.09, 0.10, 0.11), "loss 0.1 above fp32&#39;s, ±0.025 with 3 pairs; activations 0.28×."),
        ((-0.11, -0.10, -0.09), "loss 0.1 below fp32&#39;s, ±0.025 with 3 pairs; activations 0.28×."),
        ((0.0, 0.0), "loss identical to fp32&#39;s in 2 pairs; activations 0.28×."),
        ((0.02,), "a gap in loss of 0.02 with 1 pair, which can resolve none; activations 0.28×."),
    ],
)
def test_a_sentence_claims_what_the_pairs_can_tell(tmp_path: Path, gaps: tuple[float, ...], says: str):
    text = page(tmp_path / "a", [HEADER, *evaluations(gaps), memory("fp32", 1000), memory("bf16", 280)])
    assert f"<strong>bf16</strong> {says}" in text


def test_the_box_tells_the_pairs_and_what_they_resolve(tmp_path: Path):
    records = [HEADER, *evaluations((-0.01, 0.0, 0.01)), memory("fp32", 1000)]
    gap = summarize(records).rows[1].loss.gap
    smallest = gap.resolvable()
    told = limits(page(tmp_path / "a", records))
    assert f"Smaller gaps stay hidden: a gap of {smallest:.2g} can be resolved with 3 pairs" in told
    assert f"{gap.pairs_needed(0.008)} pairs would be needed for 0.008 (loss of bf16)" in told
    assert "this one has 5 thousand parameters and took 10 steps" in told


def test_one_pair_is_said_to_tell_nothing(tmp_path: Path):
    assert "With 1 pair no gap in loss can be told from chance (bf16)" in limits(
        page(tmp_path / "a", [HEADER, *evaluations((0.1,))])
    )


def test_mixed_versions_are_told(tmp_path: Path):
    other = replace(HEADER, versions={"torch": "2.12.1"}, machine={**HEADER.machine, "threads": 4})
    told = limits(page(tmp_path / "a", [HEADER, *evaluations((0.1, 0.2)), other]))
    assert "runs of mixed versions (torch 2.13.0 and 2.12.1)" in told
    assert "runs of mixed machines (threads 2 and 4)" in told


def test_a_missing_metric_and_lost_runs_are_told(tmp_path: Path):
    failed = RunEndRecord(recipe="bf16", seed=2, status="failed", reason="boom")
    text = page(tmp_path / "a", [HEADER, *evaluations((0.1, 0.2), accuracy=0.5), failed])
    assert "The metric accuracy is missing for bf16" in limits(text)
    assert "(1 of fp32, 1 of bf16): the others may be the easier seeds" in limits(text)
    assert "<strong>bf16</strong> failed in 1 of 3 runs; of the others, " in text


def test_recipes_whose_runs_all_ended_ill_are_told(tmp_path: Path):
    ends = [
        RunEndRecord(recipe=name, seed=seed, status=status, reason=f"boom {name}")
        for name, status in (("fp32", "failed"), ("bf16", "diverged"))
        for seed in (0, 1, 2)
    ]
    text = page(tmp_path / "a", [HEADER, *ends])
    assert "All runs of the baseline fp32 failed or diverged: no gap of any recipe can be told" in limits(text)
    assert "All runs of bf16 failed or diverged: no loss and no gap can be told there" in limits(text)
    events = text.partition('<h2 id="events">')[2].partition("</section>")[0]
    assert "nothing failed" not in events
    assert all(words in events for words in ("run failed", "boom fp32", "run diverged", "boom bf16"))


def test_the_command_repeats_the_run_with_its_own_recipes(tmp_path: Path):
    folder = tmp_path / "a b"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "b-f.toml").write_text('name = "bf16"\n')
    write_records(folder / "records.jsonl", [HEADER, *evaluations((0.1, 0.2))])
    text = write_report(folder).read_text(encoding="utf-8")
    command = re.search(r'id="repeat">([^<]*)</pre>', text)
    assert command
    assert command[1].replace("&#39;", "'") == (
        f"mixprec compare 'my file.py' --recipes 'fp32,{folder}/recipes/b-f.toml' --steps 10 --threads 2 "
        "--device cuda:0 --seeds 3 --baseline fp32"
    )


def test_slow_steps_are_told(tmp_path: Path):
    steps = [
        StepRecord(
            recipe=recipe, seed=0, step=step, loss=1.0, seconds=1.0 if step % 10 else 3.0, applied=True,
            grad_norm=None, loss_scale=None, tokens=100,
        )
        for recipe in ("fp32", "bf16")
        for step in range(100)
    ]  # fmt: skip
    text = page(tmp_path / "a", [HEADER, *evaluations((0.1,)), *steps])
    assert "one step in twenty took 3 times the median or more" in limits(text)
    times = text.partition('<h2 id="times">')[2].partition("</section>")[0]
    rows = re.findall(r"<span>([^<]*)</span></td>", times)
    assert rows[:4] == ["1.00 s", "–", "3.00 s", "84"]
    assert rows[len(rows) // 2 :][:4] == ["1.00 s", "1.00×", "3.00 s", "84"]
    assert "step time differs by 0.0 % between halves" in times


def test_times_of_runs_that_others_ran_beside_are_not_told(tmp_path: Path):
    steps = [
        StepRecord(
            recipe="bf16", seed=0, step=step, loss=1.0, seconds=1.0, applied=True, grad_norm=None, loss_scale=None,
            tokens=None,
        )
        for step in range(30)
    ]  # fmt: skip
    beside = EventRecord(recipe="bf16", seed=0, step=0, name=BESIDE, site="", message="others ran beside it")
    assert '<h2 id="times">' in page(tmp_path / "a", [HEADER, *evaluations((0.1,)), *steps])
    assert '<h2 id="times">' not in page(tmp_path / "b", [HEADER, *evaluations((0.1,)), *steps, beside])


TARGETS = (
    TargetRow(name="quality.loss", limit=0.05, unit="absolute", better="lower"),
    TargetRow(name="quality.accuracy", limit=0.01, unit="absolute", better="higher"),
)


def judged() -> list[Record]:
    """A loss that keeps its target, and an accuracy that misses it by ten times."""
    found: list[Record] = [replace(HEADER, targets=TARGETS, better={"accuracy": "higher"})]
    for record in evaluations((-0.01, 0.0, 0.01)):
        if isinstance(record, EvaluationRecord):
            worse = 0.1 + 0.001 * record.seed if record.recipe == "bf16" else 0.0
            record = replace(record, metrics={**record.metrics, "accuracy": 0.9 - worse})
        found.append(record)
    return found


def test_verdicts_are_on_the_page_the_worst_first(tmp_path: Path):
    text = page(tmp_path / "a", judged())
    targets = text.partition('<h2 id="targets">')[2].partition("</section>")[0]
    assert re.findall(r'class="verdict ([\w-]+)"><span>([^<]*)', targets) == [("missed", "missed"), ("met", "met")]
    assert text.index('id="short"') < text.index('id="targets"') < text.index('id="limits"')


def test_each_metric_has_its_gaps_drawn_by_its_direction_the_worst_first(tmp_path: Path):
    gaps = page(tmp_path / "a", judged()).partition('<h2 id="gaps">')[2].partition("</section>")[0]
    assert re.findall(r'<h3 class="metric">(\w+) <span class="quiet">([^<]*)', gaps) == [
        ("accuracy", "higher is better: left of zero is worse"),
        ("loss", "lower is better: right of zero is worse"),
    ]
    assert "bf16: −0.1010, −0.1035 to −0.0985." in gaps
    assert "can be resolved with 3 pairs" in gaps
