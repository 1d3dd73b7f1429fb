from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixprec.records import (
    CoverageRecord,
    CoverageRow,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    write_records,
)
from mixprec.report import write_report
from tests.report.run_folder import PROFILES, comparison, write_run_folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(write_run_folder(tmp_path_factory.mktemp("run") / "gpt")).read_text(encoding="utf-8")


def body(page: str) -> str:
    """The page without its scripts and style."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)


def test_every_recipe_has_a_sentence_a_row_and_a_bar(page: str):
    text = body(page)
    for recipe in PROFILES:
        assert f"<strong>{recipe}</strong>" in text
        assert re.search(rf'<th scope="row"><span class="swatch[^>]*></span>{recipe}</th>', text)
        assert f"<dt>{recipe}</dt>" in text
        assert f"Recipe {recipe}</summary>" in text


def test_every_emulated_recipe_carries_its_caveat(page: str):
    for item in re.findall(r"<li>.*?</li>", body(page).partition("</ul>")[0], re.DOTALL):
        assert ("here: emulated — the time ratio is no promise of speed" in item) == ("<strong>fp32<" not in item)


def chart(page: str) -> dict[str, Any]:
    found = re.search(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_kinds_of_curves_lie_above_one_another(page: str):
    kinds = [trace["meta"]["kind"] for trace in chart(page)["loss"]["traces"]]
    order = ("band", "raw", "seed", "mean", "evaluation", "skipped")
    assert kinds == sorted(kinds, key=order.index)
    means = [trace for trace in chart(page)["loss"]["traces"] if trace["meta"]["kind"] == "mean"]
    assert [trace["name"] for trace in means] == list(PROFILES)
    assert [trace["meta"]["depth"] for trace in means] == [3, 2, 1, 0], "the first is the widest, the last on top"
    assert {trace["meta"]["depth"] for trace in chart(page)["gap"]["traces"]} == {0}


def test_memory_by_kind_is_drawn_and_told(page: str):
    memory = chart(page)["memory"]
    assert [trace["name"] for trace in memory["traces"]] == [
        "weights",
        "moments",
        "gradients",
        "saved activations",
        "buffers",
        "other",
    ], "kinds that no recipe has anything of (masters) are left out"
    assert memory["traces"][0]["x"] == [12_000_000] * 4
    assert memory["traces"][-1]["x"] == [400, 2_000_400, 2_000_400, 2_000_400], "counters and workspaces"
    text = body(page)
    assert '<td data-label="weights"><span>12\u00a0MB · 4.00</span></td>' in text
    assert '<td data-label="parameters"><span>3,000,000</span></td>' in text


def test_records_of_the_first_schema_have_no_memory_by_kind(tmp_path: Path):
    records = [record for record in comparison(seeds=1, steps=8) if not isinstance(record, MemoryRecord)]
    old = MemoryRecord(recipe="fp32", seed=0, saved_activation_bytes=1, peak_bytes=2, rss_bytes=3)
    text = write_report(write_run_folder(tmp_path / "run", iter([*records, old]))).read_text(encoding="utf-8")
    assert chart(text)["memory"] is None
    assert "Where the memory goes" not in text


def test_the_engines_on_the_page_are_explained(page: str, tmp_path: Path):
    text = body(page)
    assert "Native: the device multiplies that format. Emulated: operands were rounded exactly" in text
    assert "Torch:" not in text
    row = CoverageRow(site="a", gemm="mm", format="fp32", engine="torch", flops=10)
    records = [CoverageRecord(recipe="bf16", seed=0, rows=(row,), uncovered=("a (mm)",))]
    text = body(write_report(write_run_folder(tmp_path / "run", iter(records))).read_text(encoding="utf-8"))
    assert "Torch: a product that the recipe did not reach; torch ran it as the model says." in text
    assert "Native:" not in text


def test_settings_are_told(page: str):
    for fact in ("pydoc_data.topics", "9f2c" * 16, "Some CPU with a long name", "2.13.0", "compute_dtype"):
        assert fact in body(page)


def test_nothing_is_loaded_from_elsewhere(page: str):
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!data:)\w""", body(page))
    assert "default-src 'none'" in page


def test_names_cannot_inject_markup(tmp_path: Path):
    evil = "</script><script>alert(1)</script>&"
    record = StepRecord(
        recipe=evil, seed=0, step=0, loss=1.0, seconds=1.0, applied=True, grad_norm=None, loss_scale=None, tokens=None
    )
    write_records(tmp_path / "records.jsonl", [record])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize("kept", [1, 2, 12, 200])
def test_a_comparison_that_was_cut_off_renders(tmp_path: Path, kept: int):
    folder = write_run_folder(tmp_path / "run", iter(list(comparison(seeds=2, steps=40))[:kept]))
    assert "What each costs and loses" in write_report(folder).read_text(encoding="utf-8")


def test_a_run_of_only_failures_renders(tmp_path: Path):
    end = RunEndRecord(recipe="fp16", seed=0, status="failed", reason="")
    write_records(tmp_path / "records.jsonl", [end])
    assert "failed in its one seed" in write_report(tmp_path).read_text(encoding="utf-8")


def test_the_page_can_go_elsewhere(tmp_path: Path):
    folder = write_run_folder(tmp_path / "run")
    assert write_report(folder, tmp_path / "other.html") == tmp_path / "other.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.html", "run"]


def test_a_missing_folder(tmp_path: Path):
    with pytest.raises(ValueError, match="does not exist"):
        write_report(tmp_path / "nowhere")


def test_a_file_instead_of_a_folder(tmp_path: Path):
    (tmp_path / "a").write_text("")
    with pytest.raises(ValueError, match="is a file: expected the run folder"):
        write_report(tmp_path / "a")


def test_a_folder_without_records(tmp_path: Path):
    with pytest.raises(ValueError, match=r"holds no records\.jsonl"):
        write_report(tmp_path)


def test_a_folder_with_nothing_measured(tmp_path: Path):
    (tmp_path / "records.jsonl").write_text('{"schema": 1, "ty')
    with pytest.raises(ValueError, match="nothing was measured yet"):
        write_report(tmp_path)


def test_a_damaged_line_is_left_out_and_told(tmp_path: Path):
    folder = write_run_folder(tmp_path / "run", comparison(seeds=1, steps=8))
    with (folder / "records.jsonl").open("a") as stream:
        stream.write("what?\n" + '{"schema": 5, "type": "st')
    told: list[str] = []
    text = body(write_report(folder, told=told.append).read_text(encoding="utf-8"))
    assert len(told) == 1
    assert "is no record but b'what?'" in told[0]
    limits = text.partition("What this run cannot tell")[2].partition("</aside>")[0]
    assert "1\u00a0line of the records" in limits or "1 line of the records" in limits
    assert "The records end in half a line" in limits
    assert "What each costs and loses" in text


def test_records_that_are_all_damaged_leave_the_old_page(tmp_path: Path):
    folder = write_run_folder(tmp_path / "run", comparison(seeds=1, steps=8))
    page = write_report(folder)
    before = page.read_bytes()
    (folder / "records.jsonl").write_text("what?\n")
    with pytest.raises(ValueError, match=r"is no record.*no line of it can be read"):
        write_report(folder)
    assert page.read_bytes() == before


def test_out_is_a_folder(tmp_path: Path):
    with pytest.raises(ValueError, match="give the report a file name"):
        write_report(write_run_folder(tmp_path / "run"), tmp_path)


def test_an_unwritable_place_is_an_os_error(tmp_path: Path):
    with pytest.raises(OSError, match="nowhere"):
        write_report(write_run_folder(tmp_path / "run"), tmp_path / "nowhere" / "report.html")


def test_a_failed_move_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_run_folder(tmp_path / "run")

    def refuse(*_: object):
        raise PermissionError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_report(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["recipes", "records.jsonl"]


def gan(steps: int = 40) -> Iterator[Record]:
    """Two losses that are stepped by turns, one far above the other; the last step of `g` is skipped."""
    for step in range(steps):
        name, value = ("d", 1.0) if step % 2 == 0 else ("g", 100.0)
        yield StepRecord(
            recipe="fp16", seed=0, step=step, loss=value, seconds=1.0, applied=step < steps - 1, grad_norm=None,
            loss_scale=None, tokens=None, turn=f"{name}: {name}", losses={name: value},
        )  # fmt: skip


def lines(records: Iterable[Record], folder: Path) -> list[dict[str, Any]]:
    write_records(folder / "records.jsonl", list(records))
    return chart(write_report(folder).read_text(encoding="utf-8"))["loss"]["traces"]


def test_each_of_several_losses_has_a_line_of_its_own(tmp_path: Path):
    traces = lines(gan(), tmp_path)
    means = {trace["name"]: trace for trace in traces if trace["meta"]["kind"] == "mean"}
    assert set(means) == {"fp16, d", "fp16, g"}
    assert (means["fp16, d"]["x"], set(means["fp16, d"]["y"])) == (list(range(0, 40, 2)), {1.0})
    assert (means["fp16, g"]["x"], set(means["fp16, g"]["y"])) == (list(range(1, 40, 2)), {100.0})
    assert [means[name]["meta"]["dash"] for name in means] == ["solid", "dash"]
    (skipped,) = [trace for trace in traces if trace["meta"]["kind"] == "skipped"]
    assert (skipped["name"], skipped["x"], skipped["y"]) == ("fp16, g, skipped step", [39], [100.0])
    assert len({trace["uid"] for trace in traces}) == len(traces)


def test_a_single_named_loss_is_the_line_itself(tmp_path: Path):
    one = [replace(record, losses={"d": record.loss}) for record in gan() if record.step % 2 == 0]
    assert [trace["name"] for trace in lines(one, tmp_path) if trace["meta"]["kind"] == "mean"] == ["fp16"]
