from __future__ import annotations

import itertools
import math
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixprec.compare import Comparison, _trial, compare, recorded_recipes, target_rows
from mixprec.planner import QualityTarget, Targets
from mixprec.records import (
    ComparisonRecord,
    CoverageRecord,
    EvaluationRecord,
    EventRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    headline,
    read_records,
    summarize,
    summary_table,
)
from mixprec.report import write_report
from mixprec.specs import Phase, recipe
from mixprec.training import _memory_meter
from tests.compare.fits import comparison, fit, loss, source


def read(folder: Path) -> list[Any]:
    return list(read_records(folder / "records.jsonl"))


def of(records: list[Any], kind: type, recipe: str | None = None) -> list[Any]:
    return [r for r in records if isinstance(r, kind) and recipe in (None, r.recipe)]


def losses(records: list[Any], recipe: str, seed: int = 0) -> list[float]:
    return [r.loss for r in of(records, StepRecord, recipe) if r.seed == seed]


def stop_at(step: int, seed: int = 0) -> Callable[[object], None]:
    def stop(record: object) -> None:
        if isinstance(record, StepRecord) and (record.seed, record.step) == (seed, step):
            raise KeyboardInterrupt

    return stop


def test_every_recipe_and_seed_is_recorded_whole(tmp_path: Path):
    compare(comparison("fp32", "bf16", "mxfp8", seeds=(0, 1)), tmp_path / "run")
    records = read(tmp_path / "run")
    assert isinstance(records[0], ComparisonRecord)
    runs = set(itertools.product(("fp32", "bf16", "mxfp8"), (0, 1)))
    assert Counter((r.recipe, r.seed) for r in of(records, StepRecord)) == dict.fromkeys(runs, 6)
    ends = of(records, RunEndRecord)
    assert {(r.recipe, r.seed) for r in ends} == runs
    assert {r.status for r in ends} == {"done"}
    for kind in (CoverageRecord, MemoryRecord):
        assert Counter((r.recipe, r.seed) for r in of(records, kind)) == dict.fromkeys(runs, 1)
    final = [r for r in of(records, EvaluationRecord) if r.step == 6]
    assert {(r.recipe, r.seed, r.forward) for r in final} == {(*run, f) for run in runs for f in ("recipe", "fp32")}


def test_all_recipes_start_from_the_same_weights_and_see_the_same_batches(tmp_path: Path):
    compare(comparison("fp32", "bf16", "mxfp8"), tmp_path)
    records = read(tmp_path)
    first = [losses(records, name)[0] for name in ("fp32", "bf16", "mxfp8")]
    # Dropout included: the same elements fall away under every recipe.
    assert first[1:] == pytest.approx([first[0]] * 2, rel=0.02)


def test_recipes_take_turns_and_the_first_turn_rotates(tmp_path: Path):
    compare(comparison("fp32", "bf16"), tmp_path)
    order = [r.recipe for r in of(read(tmp_path), StepRecord)]
    assert order[:4] == ["fp32", "bf16", "bf16", "fp32"]


def test_turns_do_not_change_the_numbers(tmp_path: Path):
    compare(comparison("fp32", "bf16"), tmp_path / "turns")
    compare(comparison("fp32", "bf16", one_by_one=True), tmp_path / "one-by-one")
    compare(comparison("bf16"), tmp_path / "alone")
    turns, one_by_one, alone = (read(tmp_path / name) for name in ("turns", "one-by-one", "alone"))
    assert [r.recipe for r in of(one_by_one, StepRecord)] == ["fp32"] * 6 + ["bf16"] * 6
    assert losses(turns, "bf16") == losses(one_by_one, "bf16") == losses(alone, "bf16")


def test_the_fp32_forward_of_the_baseline_is_its_own(tmp_path: Path):
    compare(comparison("fp32", "mxfp4"), tmp_path)
    records = read(tmp_path)
    pairs: dict[str, dict[str, float]] = {}
    for r in of(records, EvaluationRecord):
        if r.step == 6:
            pairs.setdefault(r.recipe, {})[r.forward] = r.metrics["loss"]
    assert pairs["fp32"]["recipe"] == pairs["fp32"]["fp32"]
    assert pairs["mxfp4"]["recipe"] != pairs["mxfp4"]["fp32"]


def test_a_loss_that_is_not_finite_ends_that_run_only(tmp_path: Path):
    def poisoned(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        value = loss(model, batch)
        converted = type(model.hidden) is not nn.Linear
        return value * math.nan if converted and next(calls) >= 2 else value

    calls = itertools.count()
    poison = source(lambda seed, device: fit(seed, device, loss=poisoned))
    compare(comparison("fp32", "bf16", source=poison), tmp_path)
    records = read(tmp_path)
    ends = {r.recipe: r for r in of(records, RunEndRecord)}
    assert ends["fp32"].status == "done"
    assert ends["bf16"].status == "diverged"
    assert ends["bf16"].reason == "the loss was nan at step 3"
    assert [math.isnan(value) for value in losses(records, "bf16")] == [False, False, True]
    assert len(losses(records, "fp32")) == 6


@pytest.mark.parametrize(
    ("poisoned", "value", "where"),
    [("recipe", math.nan, ""), ("recipe", math.inf, ""), ("fp32", math.nan, ", with its weights in fp32")],
)
def test_an_evaluation_that_is_not_finite_ends_that_run_only(tmp_path: Path, poisoned: str, value: float, where: str):
    def evaluate(model: nn.Module) -> dict[str, float]:
        calls[type(model.hidden) is not nn.Linear] += 1
        # For bf16, each evaluation is of the converted model and then of its plain twin; fp32 is evaluated first.
        own = calls[True] == 2 if poisoned == "recipe" else (calls[True] == 2 and type(model.hidden) is nn.Linear)
        return {"loss": value if own else 1.0}

    calls: Counter[bool] = Counter()
    job = source(lambda seed, device: fit(seed, device, evaluate=evaluate))
    compare(comparison("bf16", source=job), tmp_path)
    (end,) = of(read(tmp_path), RunEndRecord)
    assert (end.status, end.reason) == ("diverged", f"the evaluation's loss was {value} after 3 steps{where}")
    assert len(losses(read(tmp_path), "bf16")) == 3


def test_an_exception_ends_that_run_only_and_is_told(tmp_path: Path):
    def refuses_16_bits(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if type(model.hidden) is not nn.Linear:  # a converted layer is of a subclass
            raise RuntimeError("expected fp32")
        return loss(model, batch)

    picky = source(lambda seed, device: fit(seed, device, loss=refuses_16_bits))
    compare(comparison("fp32", "bf16", source=picky), tmp_path)
    records = read(tmp_path)
    ends = {r.recipe: (r.status, r.reason) for r in of(records, RunEndRecord)}
    assert ends == {"fp32": ("done", ""), "bf16": ("failed", "at step 1: RuntimeError: expected fp32")}
    (event,) = [r for r in of(records, EventRecord) if r.name == "exception"]
    assert "refuses_16_bits" in event.message


def test_a_skipped_step_does_not_advance_the_schedule(tmp_path: Path):
    seen: list[int] = []

    def schedule(step: int) -> float:
        seen.append(step)
        return 1.0

    def overflow_at_step_2(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        value = loss(model, batch)
        if len(seen) == 4:  # the check before the training calls the schedule once
            value.register_hook(lambda gradient: gradient * math.inf)
        return value

    job = source(lambda seed, device: fit(seed, device, schedule=schedule, loss=overflow_at_step_2))
    compare(comparison("fp32", source=job), tmp_path)
    assert seen == [0, 0, 1, 2, 2, 3, 4]
    assert [r.applied for r in of(read(tmp_path), StepRecord)] == [True, True, False, True, True, True]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs_are_measured_too(tmp_path: Path, steps: int):
    compare(comparison("fp32", source=source(steps=steps)), tmp_path)
    (memory,) = of(read(tmp_path), MemoryRecord)
    assert memory.saved_activation_bytes > 0
    assert memory.peak_bytes > 0


def test_memory_is_that_of_the_step(tmp_path: Path):
    compare(comparison("fp32"), tmp_path)
    (memory,) = of(read(tmp_path), MemoryRecord)
    parameters = 4 * (4 * 32 + 32 + 32 + 1)
    batch, hidden = 64 * 4 * 4, 64 * 32 * 4
    assert memory.saved_activation_bytes >= batch + 2 * hidden
    assert parameters + memory.saved_activation_bytes < memory.peak_bytes < parameters + 100_000
    assert memory.rss_bytes > memory.peak_bytes
    assert memory.parameters == parameters // 4
    assert memory.bytes_by_kind is not None
    assert memory.saved_by_site is not None
    assert memory.bytes_by_kind["weights"] == memory.bytes_by_kind["gradients"] == parameters
    assert sum(memory.saved_by_site.values()) == memory.saved_activation_bytes
    # The relu's result, which the last layer reads, is its own; the batch is that of the first.
    assert memory.saved_by_site["hidden"] == batch


def test_an_older_torch_tells_saved_activations_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compare(comparison("fp32"), tmp_path / "now")
    for module in (_trial, _memory_meter):
        monkeypatch.setattr(module, "can_look_into_graphs", lambda: False)
    compare(comparison("fp32"), tmp_path / "older")
    (now,), (older,) = (of(read(tmp_path / name), MemoryRecord) for name in ("now", "older"))
    assert older.saved_activation_bytes == now.saved_activation_bytes
    assert older.saved_by_site is None
    assert older.bytes_by_kind is not None
    assert "saved activations" not in older.bytes_by_kind


def test_interrupted_runs_are_kept_and_resumed(tmp_path: Path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    job = comparison("fp32", "mxfp8", seeds=(0, 1))
    compare(job, whole)
    with pytest.raises(KeyboardInterrupt):
        compare(job, part, on_record=stop_at(step=3, seed=1))
    ends = {(r.recipe, r.seed): r.status for r in of(read(part), RunEndRecord)}
    assert ends == {
        ("fp32", 0): "done",
        ("mxfp8", 0): "done",
        ("fp32", 1): "interrupted",
        ("mxfp8", 1): "interrupted",
    }
    seen: list[Any] = []
    compare(job, part, resume=True, on_record=seen.append)
    assert {r.seed for r in of(seen, StepRecord)} == {1}, "what had ended is not trained again"
    records = read(part)
    for name, seed in itertools.product(("fp32", "mxfp8"), (0, 1)):
        assert losses(records, name, seed) == losses(read(whole), name, seed)
    assert {r.status for r in of(records, RunEndRecord)} == {"done"}


def test_what_was_chosen_once_runs_had_ended_is_told_with_every_result(tmp_path: Path):
    first = comparison("fp32", "bf16", seeds=(0, 1))
    compare(first, tmp_path)
    compare(first, tmp_path, resume=True)
    assert summarize(read(tmp_path)).afterwards == ()
    compare(comparison("fp32", "bf16", seeds=(0, 1, 2)), tmp_path, resume=True)
    target = target_rows(Targets(quality={"loss": QualityTarget(absolute=0.5)}))
    compare(replace(comparison("fp32", "bf16", seeds=(0, 1, 2)), targets=target), tmp_path, resume=True)
    compare(replace(first, targets=target), tmp_path, resume=True)
    summary = summarize(read(tmp_path))
    seeds, targets = summary.afterwards
    assert seeds.startswith("seeds were added after runs had ended (2): an interval is too narrow where")
    assert targets == "the targets were changed after runs had ended: verdicts are no proof of them"
    assert {seeds, targets} <= set(summary_table(summary).notes)
    (row,) = [row for row in summary.rows if row.recipe == "bf16"]
    assert f"{'S' + seeds[1:]}. {'T' + targets[1:]}." in headline(row, summary)


def test_what_is_chosen_before_a_run_has_ended_needs_no_word(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        compare(comparison("fp32", "bf16", seeds=(0,)), tmp_path, on_record=stop_at(step=3, seed=0))
    compare(comparison("fp32", "bf16", seeds=(0, 1)), tmp_path, resume=True)
    assert summarize(read(tmp_path)).afterwards == ()


def test_a_full_disk_leaves_a_folder_that_can_be_read_and_resumed(tmp_path: Path):
    out, kept = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(record: Record) -> None:
        if isinstance(record, StepRecord) and (record.seed, record.step) == (1, 2):
            resource.setrlimit(resource.RLIMIT_FSIZE, ((out / "records.jsonl").stat().st_size + 40, kept[1]))

    try:
        with pytest.raises(OSError, match=r"File too large.*records\.jsonl"):
            compare(comparison("fp32", "bf16", seeds=(0, 1)), out, on_record=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert not (out / "records.jsonl").read_bytes().endswith(b"\n")  # a line is cut off
    rows = summarize(read(out)).rows
    found = {(row.recipe, run.seed): run.status for row in rows for run in row.runs}
    assert found == {("fp32", 0): "done", ("bf16", 0): "done", ("fp32", 1): "unfinished", ("bf16", 1): "unfinished"}
    assert write_report(out).exists()
    compare(comparison("fp32", "bf16", seeds=(0, 1)), out, resume=True)
    assert {(end.recipe, end.seed): end.status for end in of(read(out), RunEndRecord)} == dict.fromkeys(found, "done")


def test_resuming_may_add_recipes_and_seeds(tmp_path: Path):
    compare(comparison("fp32"), tmp_path)
    compare(comparison("fp32", "bf16", seeds=(0, 1)), tmp_path, resume=True)
    records = read(tmp_path)
    (header,) = [r for r in records if isinstance(r, ComparisonRecord)]
    assert (tuple(header.recipes), tuple(header.seeds)) == (("fp32", "bf16"), (0, 1))
    assert len(of(records, RunEndRecord)) == 4
    assert [recipe.name for recipe in recorded_recipes(tmp_path)] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (comparison("fp32", source=source(steps=5)), "was run with steps 6, now it is 5"),
        (comparison("fp32", "bf16", baseline="bf16"), "was run with baseline fp32, now it is bf16"),
        (
            comparison("fp32", source=source(lambda seed, device: fit(seed, device, data={"name": "other"}))),
            "was run with data",
        ),
    ],
)
def test_resuming_something_else_is_refused(tmp_path: Path, changed: Comparison, message: str):
    compare(comparison("fp32"), tmp_path)
    before = (tmp_path / "records.jsonl").read_bytes()
    with pytest.raises(ValueError, match=message):
        compare(changed, tmp_path, resume=True)
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_folder_with_records_is_not_written_over(tmp_path: Path):
    compare(comparison("fp32"), tmp_path)
    before = (tmp_path / "records.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"holds the records of another run: `--resume .*` continues it"):
        compare(comparison("fp32"), tmp_path)
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_recipe_that_has_changed_is_not_mixed_with_what_it_was(tmp_path: Path):
    compare(comparison("fp32", "bf16"), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("[!.]*.*")}  # but the lock: it was held in between
    changed = comparison(recipes=(recipe("fp32"), recipe("mxfp8", name="bf16")))
    with pytest.raises(ValueError, match=r"recipe 'bf16' in .* differs from the one that is to be run now"):
        compare(changed, tmp_path, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("[!.]*.*")} == before


@pytest.mark.parametrize("names", [["notes.txt"], ["a", "b", "c", "d"]])
def test_a_folder_with_other_files_is_not_used(tmp_path: Path, names: list[str]):
    for name in names:
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=rf"is not empty \(it holds {names[0]}.*expected a new or empty folder"):
        compare(comparison("fp32", source=source(untrainable)), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def untrainable(seed: int, device: str) -> object:
    raise AssertionError("the folder is looked at before anything is tried")


def test_an_empty_folder_is_used_and_hidden_files_are_left(tmp_path: Path):
    (tmp_path / ".gitignore").write_text("*")
    compare(comparison("fp32"), tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "*"
    assert len(losses(read(tmp_path), "fp32")) == 6


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file is a file: expected a folder for records and report"):
        compare(comparison("fp32", source=source(untrainable)), tmp_path / "file")


def test_resuming_nothing_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"holds no records\.jsonl"):
        compare(comparison("fp32"), tmp_path, resume=True)


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        compare(comparison("fp32"), tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_workload_that_fails_leaves_no_folder(tmp_path: Path):
    broken = source(lambda seed, device: None)
    with pytest.raises(ValueError, match=r"expected mixprec\.Workload"):
        compare(comparison("fp32", source=broken), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_callers_random_state_is_left_alone(tmp_path: Path):
    before = torch.random.get_rng_state()
    compare(comparison("fp32"), tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["fp16", "bf16-true", "fp8", "nvfp4", "auto"])
def test_every_recipe_trains(tmp_path: Path, name: str):
    compare(comparison("fp32", name), tmp_path)
    records = read(tmp_path)
    assert {r.status for r in of(records, RunEndRecord)} == {"done"}
    assert losses(records, name) == pytest.approx(losses(records, "fp32"), rel=0.3)


def test_what_the_preparation_tells_is_recorded(tmp_path: Path):
    compare(comparison("auto"), tmp_path)
    notes = [r for r in of(read(tmp_path), EventRecord) if r.name == "note"]
    assert any(r.message.startswith("auto: ") for r in notes)


def test_a_phase_may_be_a_share_of_the_run(tmp_path: Path):
    late = recipe("mxfp8", name="late", phases=(Phase(last=0.5),))
    compare(replace(comparison("fp32"), recipes=(recipe("fp32"), late)), tmp_path / "run")
    events = of(read(tmp_path / "run"), EventRecord, "late")
    assert [(e.name, e.step) for e in events if e.name == "phase"] == [("phase", 2)]


def test_true_16_bit_weights_are_16_bits(tmp_path: Path):
    seen: set[torch.dtype] = set()

    def spy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        seen.add(model.hidden.weight.dtype)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        return loss(model, batch)

    compare(comparison("bf16-true", source=source(lambda seed, device: fit(seed, device, loss=spy))), tmp_path)
    assert torch.bfloat16 in seen


def test_loss_scale_is_the_one_that_the_step_ran_under(tmp_path: Path):
    compare(comparison("fp32", "fp16"), tmp_path)
    records = read(tmp_path)
    assert {r.loss_scale for r in of(records, StepRecord, "fp32")} == {None}
    assert of(records, StepRecord, "fp16")[0].loss_scale == 2.0**16
