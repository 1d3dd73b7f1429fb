"""The page of a session's folder, and how findings are worded on it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from mixprec.records import EventRecord, FindingRecord, write_records
from mixprec.report import write_report
from tests.report.monitored_run import monitored, write_monitored_run


def page(folder: Path) -> str:
    text = write_report(folder).read_text(encoding="utf-8")
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


def test_a_session_is_told_as_one_run(tmp_path: Path):
    text = page(write_monitored_run(tmp_path / "a"))
    assert "mixprec run</p>" in text
    assert "3 steps were skipped; found: 1 fault, 1 warning." in text
    assert "What each costs and loses" not in text
    assert "comparison" not in text
    assert "<summary>Recipe</summary>" in text


def test_without_scripts_the_tables_say_it(tmp_path: Path):
    text = page(write_monitored_run(tmp_path / "a"))
    row = re.search(r"blocks\.0\.attn\.qkv \(grad_output\)</th>(.*?)</tr>", text)
    assert row
    assert re.findall(r"<span>([^<]*)</span>", row[1])[:2] == ["fp16", "17\u00a0%"]


def test_a_finding_is_a_sentence_and_no_event_beside_it(tmp_path: Path):
    folder = write_monitored_run(tmp_path / "a")
    finding = next(record for record in monitored() if isinstance(record, FindingRecord))
    remedy = "session.locate() names it; `mixprec doctor <RUN>` too."
    odd = dataclasses.replace(finding, name="odd one", message="it <broke>", remedy=remedy)
    event = EventRecord(recipe="fp16", seed=0, step=odd.step, name="odd one", site="", message="it <broke>")
    write_records(folder / "records.jsonl", [odd, event])
    text = page(folder)
    assert "It &lt;broke&gt;." in text
    assert "<strong>session.locate() names it; <code>mixprec doctor &lt;RUN&gt;</code> too.</strong>" in text
    events = text.partition('<h2 id="events">')[2].partition("</section>")[0]
    assert "skipped" in events
    assert "odd one" not in events
