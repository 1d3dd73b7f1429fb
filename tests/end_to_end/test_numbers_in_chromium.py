"""The report's page of numbers in a browser: the map, the exponents over the bands, the time axis."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mixprec.records import write_records
from mixprec.report import write_report
from tests.end_to_end.chromium import executable, open_page
from tests.report.monitored_run import ROLES, SITES, tensor, write_monitored_run

pytestmark = pytest.mark.skipif(executable() is None, reason="Chromium is not installed: apt-get install chromium")

#: What a reader does, and what the page then says, as text for the test.
ACTIONS = """
<script>
document.addEventListener("mixprec-drawn", () => {
  const told = [];
  const event = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  const press = (key) => document.activeElement.dispatchEvent(event(key));
  const name = () => document.getElementById("tensor-name").textContent;
  const change = (id, value) => {
    const input = document.getElementById(id);
    input.value = value;
    input.dispatchEvent(new Event(input.type === "range" ? "input" : "change"));
  };
  document.querySelector('#site-map [tabindex="0"]').focus();
  press("ArrowRight"); press("ArrowUp");
  told.push("focus: " + document.activeElement.title);
  document.activeElement.click();
  told.push("chosen: " + name());
  document.querySelector('input[value="sqnr"]').click();
  told.push("sqnr: " + document.activeElement.title);
  change("numbers-cast", "1");
  document.querySelector('input[value="saturated"]').click();
  const worst = [...document.querySelectorAll("#site-map button")].filter((b) => b.className === "heat-4");
  told.push("what-if: " + worst.map((b) => b.title).join(";"));
  change("numbers-step", "1");
  told.push("step: " + document.getElementById("tensor-facts").textContent);
  told.push("stops: " + document.querySelectorAll('#site-map [tabindex="0"]').length);
  const pre = document.createElement("pre");
  pre.id = "told";
  pre.textContent = told.join("\\n");
  document.body.append(pre);
});
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_monitored_run(tmp_path_factory.mktemp("run") / "a"))


@pytest.fixture(scope="module")
def opened(page: Path, tmp_path_factory: pytest.TempPathFactory):
    return open_page(page, tmp_path_factory.mktemp("profile"))


def test_the_console_is_silent(opened):
    assert opened.console == ()


def test_the_map_shows_every_tensor_and_names_it(opened):
    part = opened.dom.partition('id="site-map"')[2].partition('id="map-scale"')[0]
    buttons = re.findall(r"<button[^>]*>([^<]*)</button>", part)
    assert len(buttons) == len(SITES) * len(ROLES)
    labels = re.findall(r'aria-label="([^"]*)"', part)
    share = tensor(350, "blocks.0.attn.qkv", "grad_output").flushed
    assert f"blocks.0.attn.qkv (grad_output), fp16: underflow {100 * share:.0f} %" in labels
    assert part.count('aria-pressed="true"') == 1
    assert part.count('tabindex="0"') == 1, "the tab key stops once; arrows move within"


def test_the_worst_tensor_is_shown_with_its_exponents(opened):
    assert '<h3 id="tensor-name" aria-live="polite">blocks.0.attn.qkv (grad_output)</h3>' in opened.dom
    chart = opened.dom.partition('id="chart-exponents"')[2].partition("</details>")[0]
    bars = re.findall(r'<g class="point"><path d="M[-\d.]+,[-\d.]+V[-\d.]+H[-\d.]+V', chart)
    counts = tensor(350, "blocks.0.attn.qkv", "grad_output").exponents
    assert len(bars) == len(counts) + 2 * 8, "a bar for each binade, two pieces for each band"
    for name in (
        "fp16, loss scale 2^17",
        "fp16, no loss scale",
        "bf16",
        "e4m3, no scale",
        "e2m1, scaled to the largest",
    ):
        assert name in chart
    rows = re.findall(
        r'<th scope="row">(fp16[^<]*)</th><td[^>]*><span>([^<]*)</span></td><td[^>]*><span>([^<]*)</span></td>'
        r"<td[^>]*><span>([^<]*)</span>",
        opened.dom,
    )
    assert rows == [
        ("fp16, loss scale 2^17", "2^−24", "2^16", "17 %"),
        ("fp16, no loss scale", "2^−7", "2^33", "100 %"),
    ]


def test_the_time_axis_is_drawn(opened):
    chart = opened.dom.partition('id="chart-timeline"')[2].partition("<h3>Findings")[0]
    assert re.search(r'trace scatter traceloss-scale.*?<path class="js-line" d="M[^"]*[HV]', chart, re.DOTALL)
    for uid, points in (("mark-event-skipped", 3), ("mark-fault-flushed", 1), ("mark-warning-loss spike", 1)):
        group = chart.partition(f"trace{uid}")[2].partition('<g class="trace')[0]
        assert group.count('<path class="point"') == points, uid


def test_findings_are_told_with_evidence_and_rule(opened):
    findings = opened.dom.partition("<h3>Findings</h3>")[2].partition("</table>")[0]
    assert findings.index("flushed") < findings.index("loss spike")
    assert "Keep this gradient in bf16." in findings
    assert "grad_output = &quot;bf16&quot;" in findings or 'grad_output = "bf16"' in findings


def test_keys_and_switches(page: Path, tmp_path: Path):
    changed = tmp_path / "page.html"
    changed.write_text(page.read_text(encoding="utf-8").replace("</body>", ACTIONS + "</body>"), encoding="utf-8")
    opened = open_page(changed, tmp_path / "profile")
    assert opened.console == ()
    told = dict(
        line.split(": ", 1) for line in re.search(r'id="told">(.*?)</pre>', opened.dom, re.DOTALL)[1].splitlines()
    )
    assert told["focus"] == "blocks.1.attn.qkv (weight), fp16: underflow 0 %", "one to the right, one up"
    assert told["chosen"] == "blocks.1.attn.qkv (weight)"
    assert told["sqnr"] == "blocks.1.attn.qkv (weight), fp16: SQNR 74 dB"
    assert told["what-if"] == "blocks.3.mlp.fc2 (input), e4m3[tensor]: saturation 2.0 %"
    assert told["step"].startswith("Step 50, loss scale 2^15: 70,000 elements")
    assert "e4m3[tensor] would flush 0 %" in told["step"]
    assert told["stops"] == "1"


@pytest.mark.parametrize("width", [500, 1280])
def test_nothing_is_wider_than_the_window(page: Path, tmp_path: Path, width: int):
    told = "`width ${document.documentElement.scrollWidth} of ${innerWidth}`"
    probe = f"<script>document.addEventListener('mixprec-drawn', () => document.body.append({told}))</script>"
    changed = tmp_path / "page.html"
    changed.write_text(page.read_text(encoding="utf-8").replace("</body>", probe + "</body>"), encoding="utf-8")
    found = re.search(
        r"width (\d+) of (\d+)", open_page(changed, tmp_path / "profile", width=width).dom.rpartition("</script>")[2]
    )
    assert found
    assert int(found[1]) <= int(found[2])


WORST = ("blocks.3.mlp.fc2", "input")
#: Figures of one tensor, the others being as good as they can be; what the map opens on, and what it says there.
OPENS: list[tuple[dict[str, float], str]] = [
    ({"saturated": 0.06, "sqnr_db": 12.0}, "saturated: saturation 6.0 %"),
    ({"saturated": 0.06, "sqnr_db": 3.0, "flushed": 0.6}, "saturated: saturation 6.0 %"),
    ({"saturated": 0.0005, "flushed": 0.2}, "flushed: underflow 20 %"),
    ({"flushed": 0.0001, "sqnr_db": 10.0}, "sqnr: SQNR 10 dB"),
    ({}, "flushed: underflow 0 %"),
]


def test_the_map_opens_on_what_is_worst(tmp_path: Path):
    good = {"flushed": 0.0, "subnormal": 0.0, "saturated": 0.0, "sqnr_db": 60.0}
    records = [
        replace(tensor(0, *one, **{**good, **(figures if one == WORST else {})}), recipe=f"run{i}")
        for i, (figures, _) in enumerate(OPENS)
        for one in product(SITES, ROLES)
    ]
    (tmp_path / "run").mkdir()
    write_records(tmp_path / "run" / "records.jsonl", records)
    said = """<script>document.addEventListener("mixprec-drawn", () => {
      const runs = document.getElementById("numbers-run");
      const told = [...runs.options].map((_, i) => {
        runs.value = i;
        runs.dispatchEvent(new Event("change"));
        const measure = document.querySelector('input[name="measure"]:checked').value;
        const shown = document.querySelector('#site-map [aria-pressed="true"]').title;
        return `${runs.options[i].text}: ${document.getElementById("tensor-name").textContent}: ${measure}: ${shown}`;
      });
      const pre = document.createElement("pre");
      pre.id = "told";
      pre.textContent = told.join("\\n");
      document.body.append(pre);
    });</script>"""
    page = write_report(tmp_path / "run")
    page.write_text(page.read_text().replace("</body>", f"{said}</body>"))
    opened = open_page(page, tmp_path / "profile")
    assert opened.console == ()
    told = opened.dom.partition('<pre id="told">')[2].partition("</pre>")[0].splitlines()
    assert len(told) == len(OPENS)
    for i, (line, (figures, opens_on)) in enumerate(zip(told, OPENS, strict=True)):
        measure, _, says = opens_on.partition(": ")
        where = f"{WORST[0]} ({WORST[1]})" if figures else "blocks.0.attn.qkv (grad_output)"
        assert line == f"run{i}, seed 0: {where}: {measure}: {where}, fp16: {says}"
