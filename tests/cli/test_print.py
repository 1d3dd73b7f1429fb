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


def test_a_pipe_keeps_every_row_on_its_line():
    lines = printed(20, terminal=False)
    assert any("a name of [some] length" in line and "1.10×" in line for line in lines)
