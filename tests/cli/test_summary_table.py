"""The table that a comparison ends with."""

from __future__ import annotations

import pytest

from mixprec.cli._summary_table import print_summary
from mixprec.records import summarize
from tests.report.run_folder import PROFILES, comparison


def test_into_a_pipe_the_table_fits_a_page_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]):
    print_summary(summarize(comparison(seeds=3, steps=40)))
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if line.startswith(("┏", "┃", "┡", "│", "└"))]
    assert max(map(len, table)) <= 140
    costs, times, memory = (len(PROFILES),) * 3
    gaps = (len(PROFILES) - 1) * 4  # the worst metrics
    assert len([line for line in table if line.startswith("│")]) == costs + gaps + times + memory
    assert "- GEMM FLOPs of mxfp8: mxfp8 rceil 92 %, fp32 8 %" in lines
    assert sum(line.startswith("- GEMM FLOPs of ") for line in lines) == len(PROFILES)


def test_memory_is_told_by_kind(capsys: pytest.CaptureFixture[str]):
    print_summary(summarize(comparison(seeds=1, steps=40)))
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("│ fp32") and "3,000,000" in line]
    assert "12 MB · 4.00 │ 24 MB · 8.00 │ 12 MB · 4.00 │" in row
    assert "- memory: after each size the bytes per parameter" in lines


def test_without_a_measurement_there_is_no_such_line(capsys: pytest.CaptureFixture[str]):
    print_summary(summarize(list(comparison(seeds=1, steps=40))[:2]))
    out = capsys.readouterr().out
    assert "GEMM FLOPs" not in out
    assert "memory of a step" not in out
