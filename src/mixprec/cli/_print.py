"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNLIMITED = 10_000


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    turn: bool = False,
    folding: str | None = None,
    console: Console | None = None,
) -> None:
    """Print rows under a header; a heading that begins with ``>`` is right-aligned.

    Into a pipe or a file every cell stays on its line, whatever the width.

    Args:
        header: the headings.
        rows: cells, one for each heading; square brackets are text, not markup.
        title: above the table.
        turn: on a terminal that is too narrow, turn rows into columns: many narrow columns of numbers are hard to
            read once they wrap.
        folding: the heading of the one column that may fold where a terminal is narrow; by default all but the first.
        console: where to print; standard output by default.
    """
    body = [tuple(row) for row in rows]
    console = console or Console()
    if not console.is_terminal:
        console.width = _UNLIMITED
    table = _table(header, body, title, folding)
    if turn and Console(width=_UNLIMITED).measure(table).maximum > console.width:
        turned = [tuple(cells) for cells in zip(*body, strict=True)]
        names = [name.removeprefix(">") for name in header]
        header = (names[0], *(turned[0] if turned else ()))
        body = [(name, *cells) for name, cells in zip(names[1:], turned[1:], strict=False)]
        table = _table(header, body, title, None)
    console.print(table)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None, folding: str | None) -> Table:
    table = Table(title=None if title is None else Text(title, style="table.title"), title_justify="left")
    for i, heading in enumerate(header):
        justify = "right" if heading.startswith(">") else "left"
        stays = i == 0 if folding is None else heading != folding
        table.add_column(Text(heading.removeprefix(">")), justify=justify, overflow="fold", no_wrap=stays)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
