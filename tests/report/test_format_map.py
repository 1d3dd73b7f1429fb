from __future__ import annotations

from mixprec.records import CoverageRecord, CoverageRow, RecipeRecords
from mixprec.report._format_map import format_map, ranged


def records(rows: list[tuple[str, str, str, str]]) -> RecipeRecords:
    own = RecipeRecords()
    told = tuple(CoverageRow(site=s, gemm=g, format=f, engine=e, flops=1) for s, g, f, e in rows)
    own.add(CoverageRecord(recipe="r", seed=0, rows=told, uncovered=()))
    return own


def test_alike_layers_share_a_row_and_others_do_not():
    names = [f"blocks.{i}.fc" for i in range(6)]
    narrow = records(
        [(s, g, "mxfp8", "emulated") for s in names[:5] for g in ("wgrad", "fprop")]
        + [(names[5], "fprop", "fp32", "native")]
    )
    plain = records([(s, "fprop", "fp32", "native") for s in names])
    found = format_map({"narrow": narrow, "plain": plain})
    assert found is not None
    assert found.gemms == ("fprop", "wgrad")
    assert [(row.name, row.sites) for row in found.rows] == [("blocks.0–4.fc", 5), ("blocks.5.fc", 1)]
    told = [[[cell.told for cell in own] for own in row.cells] for row in found.rows]
    assert told == [
        [["mxfp8, emulated", "mxfp8, emulated"], ["fp32", "none"]],
        [["fp32", "none"], ["fp32", "none"]],
    ]
    assert [(cell.key, cell.told) for cell in found.legend] == [("A", "mxfp8, emulated"), ("B", "fp32")]


def test_a_thousand_layers_of_kinds_of_their_own_are_cut_and_counted():
    letters = [f"{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    found = format_map({"r": records([(site, "fprop", "fp32", "native") for site in letters])})
    assert found is not None
    assert found.sites == 1000
    assert len(found.rows) + found.left_out == 1000


def test_nothing_counted_is_no_map():
    assert format_map({"r": RecipeRecords()}) is None


def test_ranges_of_numbers():
    assert ranged([f"a.{i}.b.{j}" for i in (0, 1) for j in (0, 2)]) == "a.0–1.b.0,2"
    assert ranged([f"x.{2 * i}" for i in range(20)]) == "x.0,2,4,6,8,…,38"
