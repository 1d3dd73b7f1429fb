"""Two runs on one page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixprec.records import ComparisonRecord, EvaluationRecord, Record, StepRecord, write_records
from mixprec.report import write_pair
from tests.report.run_folder import comparison, write_run_folder


def other() -> Iterator[Record]:
    """Fewer steps and seeds, another torch, and one recipe less."""
    for record in comparison(seeds=2, steps=40):
        if isinstance(record, ComparisonRecord):
            yield replace(
                record, recipes=("fp32", "nvfp4", "bf16"), versions={**record.versions, "torch": "2.12.1 <b>"}
            )
        elif record.recipe != "mxfp8":
            yield record


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("runs")
    first = write_run_folder(place / "a", comparison(seeds=3, steps=60))
    second = write_run_folder(place / "b", other())
    (second / "recipes" / "bf16.toml").write_text('name = "bf16"\ncompute_dtype = "bf16"\n')
    written = write_pair(first, second)
    assert written == first / "beside-b.html"
    return written.read_text(encoding="utf-8")


def charts(page: str) -> dict[str, Any]:
    return json.loads(page.partition('id="chart-data">')[2].partition("</script>")[0])


def test_differences_in_settings_come_first_and_alike_ones_are_named(page: str):
    text = page.partition("<main>")[2]
    settings = text.partition("What differs in the settings")[2].partition("</section>")[0]
    assert text.index("What differs in the settings") < text.index("In short")
    rows = re.findall(
        r'<th scope="row">([^<]*)</th>\s*<td[^>]*><span>([^<]*)</span></td>\s*<td[^>]*><span>([^<]*)', settings
    )
    assert rows == [
        ("recipes", "fp32, bf16, mxfp8, nvfp4", "fp32, nvfp4, bf16"),
        ("seeds", "0, 1, 2", "0, 1"),
        ("steps", "60", "40"),
        ("versions: torch", "2.13.0", "2.12.1 &lt;b&gt;"),
    ]
    assert "alike: workload, baseline, data: name" in settings
    assert "-compute_dtype = &#34;fp32&#34;" in settings
    assert "+compute_dtype = &#34;bf16&#34;" in settings


def test_a_recipe_has_one_colour_in_both(page: str):
    for name in ("loss-0", "loss-1", "throughput-0", "intervals-0", "times"):
        colors = {
            (trace.get("legendgroup") or trace["y"][0].partition(" · ")[0], trace["meta"]["series"])
            for trace in charts(page)[name]["traces"]
        }
        assert colors <= {("fp32", 0), ("bf16", 1), ("mxfp8", 2), ("nvfp4", 3)}, name


def test_rows_of_a_recipe_stand_together_and_curves_have_the_same_axes(page: str):
    found = charts(page)
    rows = list(dict.fromkeys(row for trace in found["intervals-0"]["traces"] for row in trace["y"]))
    assert rows == ["bf16 · a", "bf16 · b", "mxfp8 · a", "nvfp4 · a", "nvfp4 · b"]
    weights = found["memory"]["traces"][0]
    assert weights["name"] == "weights"
    assert weights["y"][:3] == ["fp32 · a", "fp32 · b", "bf16 · a"]
    assert found["loss-0"]["range"] == found["loss-1"]["range"]
    assert found["loss-0"]["steps"] == found["loss-1"]["steps"] == [-0.6, 60.6]


def test_the_gaps_of_all_metrics_that_both_have_are_drawn(page: str):
    section = page.partition('<h2 id="gaps">')[2].partition("</section>")[0]
    names = re.findall(r'<h3 class="metric">([^ ]*) ', section)
    assert sorted(names) == ["accuracy", "loss", "loss/code", "loss/prose", "smoothed_loss"]
    found = charts(page)
    assert [name for name in found if name.startswith("intervals")] == [f"intervals-{i}" for i in range(5)]
    rows = {trace["y"][0] for trace in found[f"intervals-{names.index('accuracy')}"]["traces"]}
    assert rows == {"bf16 · a", "bf16 · b", "mxfp8 · a", "nvfp4 · a", "nvfp4 · b"}


def test_a_metric_that_one_run_lacks_is_not_drawn(tmp_path: Path):
    second = (
        replace(record, metrics={"loss": record.metrics["loss"]}) if isinstance(record, EvaluationRecord) else record
        for record in other()
    )
    first = write_run_folder(tmp_path / "a", comparison(seeds=3, steps=60))
    text = write_pair(first, write_run_folder(tmp_path / "b", second)).read_text(encoding="utf-8")
    assert sorted(re.findall(r'<h3 class="metric">([^ ]*) ', text)) == ["loss", "smoothed_loss"]


def test_throughputs_have_the_same_axes_or_are_left_out(page: str, tmp_path: Path):
    found = charts(page)
    assert found["throughput-0"]["range"] == found["throughput-1"]["range"]
    assert "Tokens per second over the run" in page
    second = (replace(record, tokens=None) if isinstance(record, StepRecord) else record for record in other())
    first = write_run_folder(tmp_path / "a", comparison(seeds=3, steps=60))
    text = write_pair(first, write_run_folder(tmp_path / "b", second)).read_text(encoding="utf-8")
    assert charts(text)["throughput-0"] is None, "tokens per second beside steps per second"
    assert "per second over the run" not in text


def test_one_folder_is_not_compared_with_itself(tmp_path: Path):
    with pytest.raises(ValueError, match="are one folder: give two runs"):
        write_pair(tmp_path, tmp_path / "a" / "..")


def test_two_sessions_have_neither_gaps_nor_memory_and_a_page(tmp_path: Path):
    for name, loss in (("a", 2.5), ("b", 2.25)):
        (tmp_path / name).mkdir()
        steps = [
            StepRecord(
                recipe="bf16",
                seed=0,
                step=step,
                loss=loss,
                seconds=0.1,
                applied=True,
                grad_norm=None,
                loss_scale=None,
                tokens=None,
            )
            for step in range(3)
        ]
        write_records(tmp_path / name / "records.jsonl", steps)
    page = write_pair(tmp_path / "a", tmp_path / "b").read_text(encoding="utf-8")
    found = charts(page)
    assert [found[f"loss-{i}"]["traces"][-2]["y"] for i in (0, 1)] == [[2.5] * 3, [2.25] * 3]
    assert [name for name in found if name.startswith("intervals")] == []
    assert {found[name] for name in ("times", "memory", "throughput-0", "throughput-1")} == {None}
    assert "Gap to the baseline, and how sure it is" not in page
