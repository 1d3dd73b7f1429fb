"""Incidents on the page: their table, their marks, and nothing where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mixprec.records import Record, read_records, write_records
from mixprec.report import write_figures, write_report
from mixprec.report._incidents import SHOWN_INCIDENTS
from tests.report.guarded_run import STEPS, guarded, incident, write_guarded_run
from tests.report.monitored_run import write_monitored_run
from tests.report.run_folder import comparison, write_run_folder


def section(page: str) -> str:
    found = re.search(r'<section aria-labelledby="incidents">.*?</section>', page, re.DOTALL)
    return "" if found is None else found[0]


def loss_traces(page: str) -> list[dict[str, Any]]:
    found = re.search(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])["loss"]["traces"]


def written(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(write_guarded_run(tmp_path_factory.mktemp("runs") / "a"))


def test_a_run_without_incidents_says_nothing_of_them(tmp_path: Path):
    page = written(write_monitored_run(tmp_path / "a"))
    assert section(page) == ""
    assert "Triangles" not in page
    assert "incident" not in {trace["meta"]["kind"] for trace in loss_traces(page)}


def test_a_run_tells_its_incidents_in_a_table(page: str):
    text = section(page)
    assert "<li>1 incident (1 recovered; 10 steps and 2.50\u00a0s lost)</li>" in text
    assert '<th scope="row">1: loss spike</th>' in text
    assert '<span class="badge good">recovered at step 120</span>' in text
    assert "<code>blocks.0.attn.qkv (input)</code> Back to step 90, batches 97 to 99 left out." in text
    assert "Measured: loss 9.1." in text
    assert "<code>mixprec doctor a --incident 1</code>" in text
    assert "recipe, seed" not in text
    assert "no step was skipped; 1 incident (1 recovered; 10 steps and 2.50\u00a0s lost)." in page


def test_the_curve_is_the_one_that_stayed_with_a_mark_on_it(page: str):
    (mark,) = [trace for trace in loss_traces(page) if trace["meta"]["kind"] == "incident"]
    assert (mark["x"], mark["text"], mark["mode"]) == ([100], ["1"], "markers")
    assert mark["y"][0] < 2.1
    (raw,) = [trace for trace in loss_traces(page) if trace["meta"]["kind"] == "raw"]
    assert raw["x"] == list(range(STEPS))
    assert max(raw["y"]) < 9, "steps that it went back over are not in it"
    assert "Triangles: incidents." in page


def test_an_incident_that_ended_the_run_is_marked_at_its_last_step(tmp_path: Path):
    folder = write_guarded_run(tmp_path / "a")
    write_records(
        folder / "records.jsonl", [incident(2, step=STEPS, rung="stop", outcome="stopped", site="", evidence={})]
    )
    page = written(folder)
    (mark,) = [trace for trace in loss_traces(page) if trace["meta"]["kind"] == "incident"]
    assert mark["x"] == [100, STEPS - 1]
    assert '<span class="badge fault">stopped the run</span>' in section(page)


def test_an_incident_before_any_step_has_no_mark(tmp_path: Path):
    folder = tmp_path / "a"
    folder.mkdir()
    write_records(folder / "records.jsonl", [incident(step=0)])
    assert "1: loss spike" in section(written(folder))


def _of(recipe: str, seed: int, number: int) -> Record:
    return incident(number, recipe=recipe, seed=seed, step=5, outcome="recovered", resolved=7)


def test_a_comparison_tells_whose_incident_it_was(tmp_path: Path):
    records = [*comparison(seeds=2, steps=8), _of("nvfp4", 1, 1), _of("nvfp4", 0, 1), _of("bf16", 0, 1)]
    text = section(written(write_run_folder(tmp_path / "a", iter(records))))
    assert re.findall(r"</span>(\w+): (\d) incident", text) == [("bf16", "1"), ("nvfp4", "2")]
    assert re.findall(r"</span>(\w+, \d)</span>", text) == ["bf16, 0", "nvfp4, 0", "nvfp4, 1"]
    assert "--incident 1 --recipe nvfp4 --seed 1" in text


def test_very_many_are_cut_and_counted(tmp_path: Path):
    folder = write_guarded_run(tmp_path / "a")
    write_records(folder / "records.jsonl", [incident(number) for number in range(2, SHOWN_INCIDENTS + 11)])
    text = section(written(folder))
    assert text.count('<th scope="row">') == SHOWN_INCIDENTS
    assert "10 more are in records.jsonl" in text


def test_text_of_an_incident_is_no_markup(tmp_path: Path):
    folder = tmp_path / "a"
    folder.mkdir()
    odd = incident(trigger="<b>", site="<loss>", action="</td>x", evidence={"<i>": "<u>"})
    write_records(folder / "records.jsonl", [odd])
    text = section(written(folder))
    assert not re.search(r"<(b|loss|i|u)>|</td>x", text)


def test_figures_have_the_marks_and_all_numbers(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'mixprec[figures]'")
    folder = write_guarded_run(tmp_path / "a")
    write_figures(folder, tmp_path / "figures")
    assert re.search(r'"fp16, incident",incident,100,1\.\d+', (tmp_path / "figures" / "loss.csv").read_text())
    (told,) = json.loads((tmp_path / "figures" / "report.json").read_text())["incidents"]
    assert (told["number"], told["outcome"], told["batches"]) == (1, "recovered", [97, 98, 99])
    assert len(read_records(folder / "records.jsonl")) == len(list(guarded()))
