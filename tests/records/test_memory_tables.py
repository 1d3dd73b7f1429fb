from __future__ import annotations

from collections.abc import Mapping

from mixprec.records import MemoryRecord, memory_table, sites_table, summarize


def record(recipe: str, seed: int, kinds: Mapping[str, int], **sites: int) -> MemoryRecord:
    return MemoryRecord(
        recipe=recipe,
        seed=seed,
        saved_activation_bytes=sum(sites.values()),
        peak_bytes=10_000,
        rss_bytes=1,
        parameters=100,
        bytes_by_kind=kinds,
        saved_by_site=sites,
    )


def test_the_seed_that_needs_most_is_told():
    rows = summarize(
        [
            record("a", 0, {"weights": 400, "saved activations": 90}, x=90),
            record("a", 1, {"weights": 400, "saved activations": 110}, x=100, y=10),
            record("a", 2, {"weights": 400, "saved activations": 70}, x=70),
        ]
    ).rows
    assert rows[0].bytes_by_kind == {"weights": 400, "saved activations": 110}
    assert rows[0].saved_by_site == {"x": 100, "y": 10}
    assert rows[0].parameters == 100


def test_bytes_and_bytes_per_parameter():
    kinds = {"weights": 200, "masters": 400, "moments": 800, "counters": 8, "buffers": 0, "weights of codes": 50}
    table = memory_table(summarize([record("a", 0, kinds), record("b", 0, {"weights": 400, "gradients": 400})]))
    assert table is not None
    assert table.headers == ("recipe", "parameters", "weights", "masters", "moments", "gradients", "other", "together")
    assert table.rows == (
        ("a", "100", "200 B · 2.00", "400 B · 4.00", "800 B · 8.00", "–", "58 B · 0.58", "1.46 kB · 14.58"),
        ("b", "100", "400 B · 4.00", "–", "–", "400 B · 4.00", "–", "800 B · 8.00"),
    )


def test_ten_sites_are_named_the_largest_first():
    sites = {f"block{i}": 10 * i for i in range(1, 16)}
    table = sites_table(summarize([record("a", 0, {"weights": 4}, **sites)]).rows[0])
    assert table is not None
    assert [row[0] for row in table.rows] == [*(f"block{i}" for i in range(15, 5, -1)), "5 other sites"]
    assert table.rows[0] == ("block15", "150 B", "12 %")
    assert table.rows[-1] == ("5 other sites", "150 B", "12 %")


def test_nothing_measured_gives_no_table():
    old = MemoryRecord(recipe="a", seed=0, saved_activation_bytes=5, peak_bytes=7, rss_bytes=9)
    summary = summarize([old])
    assert memory_table(summary) is None
    assert sites_table(summary.rows[0]) is None
