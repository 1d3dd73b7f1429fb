"""Estimates in a run folder, on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixprec.cli import main
from mixprec.records import ComparisonRecord, RunEndRecord, write_records
from mixprec.report import write_report
from mixprec.report.estimates import read_estimates
from mixprec.specs import recipe
from tests.report.run_folder import comparison, write_run_folder


def told(**changes: Any) -> dict[str, Any]:
    steps = {"fp32": 0.01, "bf16": 0.0062}
    recipes = {
        name: {"seconds": s, "peak": 1000, "sites": {f"s{i}": s / 20 for i in range(20)}} for name, s in steps.items()
    }
    device = {"name": "b200", "title": "B200", "validated": False, "recipes": recipes, "notes": ["a note"]}
    return {"schema": 1, "hardware": [device | changes]}


def test_a_sentence_ends_with_the_estimate_and_says_what_it_is(tmp_path: Path):
    folder = write_run_folder(tmp_path / "run", comparison(seeds=2, steps=8))
    (folder / "estimates.json").write_text(json.dumps(told()))
    text = write_report(folder).read_text(encoding="utf-8")
    assert "estimated 0.62× step on B200, not validated." in text
    assert "Estimates for B200 were never compared with a measurement there" in text
    sites = text.partition("Estimated time by site on B200</summary>")[2].partition("</table>")[0]
    assert sites.count("<tr>") == 1 + 12 + 1
    assert "8 other sites" in sites
    (folder / "estimates.json").write_text(json.dumps(told(validated=True)))
    text = write_report(folder).read_text(encoding="utf-8")
    assert "estimated 0.62× step on B200." in text
    assert "never compared with a measurement" not in text


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99, "hardware": []}', '{"schema": 1, "hardware": [{}]}'])
def test_a_file_of_something_else_is_refused_with_what_to_do(tmp_path: Path, text: str):
    (tmp_path / "estimates.json").write_text(text)
    with pytest.raises(ValueError, match=r"estimates\.json holds no estimates .* delete it, and `mixprec report .*"):
        read_estimates(tmp_path)


def test_a_run_of_commands_has_no_workload_to_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "train.py").write_text("raise RuntimeError('it was run')")
    header = ComparisonRecord(
        workload=str(tmp_path / "train.py"),
        recipes=("fp32",),
        baseline="fp32",
        seeds=(0,),
        steps=1,
        machine={},
        versions={},
        data={"command": "python train.py"},
    )
    write_records(tmp_path / "records.jsonl", [header, RunEndRecord(recipe="fp32", seed=0, status="done")])
    assert main(["report", str(tmp_path), "--hardware", "h100-sxm"]) == 2
    assert "is a run of --command: a script has no workload to estimate" in capsys.readouterr().err


def test_the_command_estimates_the_recipes_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "run"
    (folder / "recipes").mkdir(parents=True)
    for name in ("fp32", "bf16"):
        (folder / "recipes" / f"{name}.toml").write_text(recipe(name).to_toml())
    header = ComparisonRecord(
        workload="resnet",
        recipes=("fp32", "bf16"),
        baseline="fp32",
        seeds=(0,),
        steps=1,
        machine={},
        versions={},
        data={},
    )
    write_records(folder / "records.jsonl", [header, RunEndRecord(recipe="fp32", seed=0, status="done")])
    assert main(["report", str(folder), "--hardware", "h100-sxm"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {folder / 'report.html'}"
    (found,) = read_estimates(folder)
    assert (found.name, found.is_validated) == ("h100-sxm", False)
    assert set(found.recipes) == {"fp32", "bf16"}
    assert found.recipes["bf16"].seconds > 0
    assert sum(found.recipes["bf16"].sites.values()) == pytest.approx(found.recipes["bf16"].seconds)
