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
    assert len([line for line in table if line.startswith("│")]) == len(PROFILES)
    assert "- GEMM FLOPs of mxfp8: mxfp8 rceil 92 %, fp32 8 %" in lines
    assert sum(line.startswith("- GEMM FLOPs of ") for line in lines) == len(PROFILES)


def test_without_a_measurement_there_is_no_such_line(capsys: pytest.CaptureFixture[str]):
    print_summary(summarize(list(comparison(seeds=1, steps=40))[:2]))
    assert "GEMM FLOPs" not in capsys.readouterr().out
