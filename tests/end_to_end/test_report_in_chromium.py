"""The report opens in a browser without a complaint, and shows its curves and its table."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from mixprec.records import MemoryRecord
from mixprec.report import write_report
from tests.end_to_end.chromium import executable, open_page
from tests.report.run_folder import PROFILES, comparison, write_run_folder

pytestmark = pytest.mark.skipif(executable() is None, reason="Chromium is not installed: apt-get install chromium")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory):
    folder = write_run_folder(tmp_path_factory.mktemp("run") / "gpt")
    return open_page(write_report(folder), tmp_path_factory.mktemp("profile"))


def curve(dom: str, uid: str) -> list[tuple[float, float]]:
    """The points [pixels] of the line that Plotly drew for a trace; it leaves out those on a straight line."""
    found = re.search(rf'<g class="trace scatter trace{uid}".*?<path class="js-line" d="([^"]*)"', dom, re.DOTALL)
    assert found, f"no line is drawn for {uid}"
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", found[1])]


def test_the_console_is_silent(opened):
    assert opened.console == ()


@pytest.mark.parametrize("index", range(len(PROFILES)), ids=list(PROFILES))
def test_every_recipe_has_its_curves(opened, index: int):
    parts = ["mean", *(f"{kind}-{seed}" for kind in ("raw", "seed") for seed in range(3))]
    for part in parts:
        points = curve(opened.dom, f"recipe{index}-{part}")
        (first_x, first_y), (last_x, last_y) = points[0], points[-1]
        assert len(points) > 20, part
        assert last_x - first_x > 900, f"{part} does not span the picture"
        assert last_y - first_y > 200, f"{part} does not fall as the loss does"


def test_curves_that_coincide_are_all_seen(opened):
    losses = opened.dom.partition('id="chart-gap"')[0]
    look = r'<path class="js-line"[^>]*stroke: (rgb\([^)]*\));[^>]*stroke-width: ([0-9.]+)px'
    groups = [losses.partition(f'<g class="trace scatter tracerecipe{i}-mean')[2] for i in range(len(PROFILES))]
    found = [match for group in groups if (match := re.search(look, group))]
    assert len({match[1] for match in found}) == len(PROFILES), "each has its recipe's colour"
    widths = [float(match[2]) for match in found]
    assert all(below - above >= 1 for below, above in itertools.pairwise(widths)), "and lies within those before it"


def test_evaluations_and_skipped_steps_are_marked(opened):
    for uid, points in (("recipe0-evaluation", 4), ("recipe3-skipped", 2)):
        group = opened.dom.partition(f"trace{uid}")[2].partition('<g class="trace')[0]
        assert group.count('<path class="point"') == points


def bars(dom: str) -> list[list[tuple[float, float, float]]]:
    """For each kind of memory the left end, the right end and the top of each recipe's piece [pixels]."""
    chart = dom.partition('id="chart-memory"')[2].partition("</table>")[0]
    piece = r'<g class="point"><path d="M([\d.]+),([\d.]+)V[\d.]+H([\d.]+)V'
    return [
        [(float(x), float(end), float(y)) for x, y, end in re.findall(piece, trace)]
        for trace in chart.split('<g class="trace bars"')[1:]
    ]


def test_memory_is_stacked_by_kind(opened):
    record = next(record for record in comparison(seeds=1) if isinstance(record, MemoryRecord))
    assert record.bytes_by_kind is not None
    weights, moments, gradients, saved, buffers, other = bars(opened.dom)
    assert len(weights) == len(PROFILES)
    assert [top for *_, top in weights] == sorted(top for *_, top in weights), "the recipes are in their order"
    pixels = weights[0][1] / record.bytes_by_kind["weights"]
    stacked = (("weights", weights), ("moments", moments), ("gradients", gradients), ("saved activations", saved))
    right = 0.0
    for name, pieces in stacked:
        left, end, _ = pieces[0]
        assert left == pytest.approx(right, abs=0.1), f"{name} begins where the one before it ends"
        assert (end - left) / pixels == pytest.approx(record.bytes_by_kind[name], rel=0.01)
        right = end
    assert len(buffers) == len(other) == len(PROFILES)


def test_memory_is_told_without_seeing_and_reached_by_the_keyboard(opened):
    chart = opened.dom.partition('id="chart-memory"')[2].partition(">")[0]
    assert 'tabindex="0"' in chart
    assert "nvfp4: 86.2 MB, weights 12 MB (4.00 per parameter), moments 24 MB" in chart
    for recipe in PROFILES:
        details = opened.dom.partition(f"<summary>Saved activations of {recipe} by module</summary>")[2]
        rows = re.findall(r'<th scope="row">([^<]*)</th>', details.partition("</details>")[0])
        assert rows[0] == "blocks.13.mlp.fc"
        assert len(rows) == 11
        assert rows[-1] == "5 other sites"


def test_the_table_is_shown(opened):
    for recipe in PROFILES:
        assert re.search(rf'<th scope="row"><span class="swatch[^>]*></span>{recipe}</th>', opened.dom)


def test_a_complaint_would_be_seen(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text("<script>undefinedFunction()</script>")
    assert "undefinedFunction" in str(open_page(page, tmp_path / "profile").console)


def test_the_page_forbids_itself_the_network(tmp_path: Path):
    page = write_report(write_run_folder(tmp_path / "run"))
    text = page.read_text(encoding="utf-8").replace("</main>", '<img src="https://example.org/x.png"></main>')
    page.write_text(text, encoding="utf-8")
    assert "Content Security Policy" in str(open_page(page, tmp_path / "profile").console)
