"""Figures as PNG and CSV, and all numbers as JSON."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from mixprec.records import summarize
from mixprec.report import write_figures
from tests.report.run_folder import comparison, write_run_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_run_folder(tmp_path_factory.mktemp("run") / "gpt", comparison(seeds=3, steps=40))
    write_figures(run, run / "figures")
    return run / "figures"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_figure_is_there_twice(folder: Path):
    metrics = ("loss", "accuracy", "loss-code", "loss-prose", "smoothed_loss")
    figures = {"loss", "gap", "times", "throughput", "memory", *(f"intervals-{name}" for name in metrics)}
    assert {path.stem for path in folder.glob("*.png")} == figures
    assert {path.stem for path in folder.glob("*.csv")} == figures | {"formats"}
    for path in folder.glob("*.png"):
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert int.from_bytes(data[16:20], "big") == 1600, "8 inches of 200 dots"


def test_the_intervals_are_those_of_the_records(folder: Path):
    gap = summarize(comparison(seeds=3, steps=40)).row("nvfp4").loss.gap
    (told,) = [row for row in rows(folder / "intervals-loss.csv") if row["series"] == "nvfp4"]
    assert float(told["x"]) == pytest.approx(gap.mean, rel=1e-4)
    assert (float(told["low"]), float(told["high"])) == pytest.approx(gap.interval, rel=1e-3)
    numbers = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    found = numbers["recipes"]["nvfp4"]["metrics"]["loss"]["gap"]
    assert found["mean"] == gap.mean
    assert tuple(found["interval"]) == gap.interval
    assert found["resolvable"] == pytest.approx(gap.resolvable())
    assert numbers["settings"]["steps"] == 40
    row = summarize(comparison(seeds=3, steps=40)).row("nvfp4")
    assert tuple(numbers["recipes"]["nvfp4"]["timing"]["ratio_interval"]) == row.timing.ratio_interval
    assert numbers["recipes"]["nvfp4"]["timing"]["p95"] == row.timing.p95
    assert numbers["recipes"]["nvfp4"]["to_quality"]["speed_up"] == row.speed_up
    assert numbers["recipes"]["nvfp4"]["to_quality"]["reached"] == row.to_quality.reached
    assert numbers["verdicts"] == []
    assert numbers["sentences"]["nvfp4"].startswith("loss ")
    assert numbers["repeat"].startswith("mixprec compare gpt --recipes ")


def test_every_product_is_in_the_formats(folder: Path):
    told = {(row["site"], row["recipe"]): row["format"] for row in rows(folder / "formats.csv")}
    assert told["blocks.0.fc", "mxfp8"] == "mxfp8 rceil, emulated"
    assert told["blocks.1.fc", "mxfp8"] == "fp32"


def test_without_matplotlib_it_says_what_to_install(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"pip install 'mixprec\[figures\]'"):
        write_figures(folder.parent, tmp_path / "out")
    assert not (tmp_path / "out").exists()
