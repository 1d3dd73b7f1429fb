"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print rows under a header; a heading that begins with ``>`` is right-aligned.

    Into a pipe or a file every cell stays on its line, whatever the width.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(make_table(header, rows, title=title), crop=False, overflow="ignore")


def make_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> Table:
    """A table of plain text; square brackets are text, not markup."""
    table = Table(title=title, title_justify="left")
    for heading in header:
        table.add_column(Text(heading.removeprefix(">")), justify="right" if heading.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
