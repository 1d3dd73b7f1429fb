from __future__ import annotations

import io

from rich.console import Console

from mixprec.cli._print import print_table

HEADER = ("recipe", ">loss", ">step time")
ROWS = (("fp32", "2.25", "1.00×"), ("a name of [some] length", "2.5", "1.10×"))


def printed(width: int, *, terminal: bool = True, turn: bool = True) -> list[str]:
    file = io.StringIO()
    print_table(
        HEADER, ROWS, turn=turn, console=Console(file=file, width=width, force_terminal=terminal, color_system=None)
    )
    return file.getvalue().splitlines()


def test_a_wide_terminal_shows_a_row_for_each_recipe():
    lines = printed(80)
    assert [cell.strip() for cell in lines[3].split("│")[1:-1]] == ["fp32", "2.25", "1.00×"]
    assert "[some]" in lines[4], "square brackets are text"


def test_a_narrow_terminal_shows_a_column_for_each_recipe():
    lines = printed(40)
    row = next(line for line in lines if "loss" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["loss", "2.25", "2.5"]
    assert max(map(len, lines)) <= 40


def test_one_column_alone_may_fold_on_a_narrow_terminal():
    file = io.StringIO()
    console = Console(file=file, width=36, force_terminal=True, color_system=None)
    print_table(HEADER, ROWS, folding="recipe", console=console)
    lines = file.getvalue().splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [row[1:] for row in rows if row[1]] == [["2.25", "1.00×"], ["2.5", "1.10×"]]
    assert "".join(row[0] for row in rows).replace(" ", "") == "fp32anameof[some]length"
    assert max(map(len, lines)) <= 36


def test_a_pipe_keeps_every_row_on_its_line():
    lines = printed(20, terminal=False)
    assert any("a name of [some] length" in line and "1.10×" in line for line in lines)
