"""The page of the check names every finding, and its thresholds."""

from __future__ import annotations

import re

from mixprec.monitor.check.detectors import _accumulators, _coverage, _gradients, _masks, _ranges, _tables, _weights
from tests.architecture import tree

PAGE = (tree.ROOT / "docs" / "monitor" / "check.md").read_text(encoding="utf-8")
SOURCES = sorted((tree.PACKAGE / "monitor" / "check").rglob("*.py"))
NAMES = re.compile(r'(?:name=|call\.finding\(\s*[^,]*?,\s*)"([a-z][^"]*)"', re.DOTALL)


def names_in_source() -> set[str]:
    found: set[str] = set()
    for path in SOURCES:
        found |= {name for name in NAMES.findall(path.read_text(encoding="utf-8")) if " " in name or "-" in name}
    return found


def test_every_finding_of_the_source_is_on_the_page() -> None:
    names = names_in_source()
    assert len(names) >= 25
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_the_page_names_the_thresholds_that_hold() -> None:
    assert (_ranges.HEADROOM, 65504 / _ranges.HEADROOM, _ranges.FLUSHED) == (8, 8188, 0.5)
    assert "8,188" in PAGE
    assert (_gradients.SOME, _gradients.MOST, _weights.SOME, _weights.MOST) == (0.1, 0.5, 0.5, 0.9)
    assert (_tables.WARN, _tables.WRONG, _masks.ROOM, _masks.DEPTH, _coverage.SHARE) == (1 / 16, 1, 16, 16, 0.01)
    assert set(_accumulators.ADDITIONS.values()) == {64, 512}
    assert set(_accumulators.STOPS.values()) == {256, 2048}
    assert set(_weights.STALLED.values()) == {2**-9, 2**-12}
