"""Tables as CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from ._tables import Table

_LATEX: Mapping[str, str] = MappingProxyType(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        # At the beginning of a row a bracket would be read as an argument of the line break before.
        "[": "{[}",
        "]": "{]}",
        "−": "$-$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "∞": r"$\infty$",
        "–": "--",
        "—": "---",
    }
)
_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))
_MARKS = re.compile(r"([\\|`*\[\]]|(?<!\w)_|_(?!\w))")
_LINES = re.compile(r"\s*[\r\n]+\s*")


def table_csv(table: Table) -> str:
    r"""A table as CSV (RFC 4180, but for the line ends, which are ``\n``).

    Example:
        >>> table_csv(Table(headers=("recipe", "loss"), rows=(("a, b", "2.5"),)))
        'recipe,loss\n"a, b",2.5\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.headers, *table.rows])
    return text.getvalue()


def table_latex(table: Table) -> str:
    r"""A table as a LaTeX ``tabular`` with the rules of the package booktabs; every text is escaped.

    Example:
        >>> print(table_latex(Table(headers=("recipe", "gap"), rows=(("mx_a & b", "−0.5 ± 10 %"),))), end="")
        % needs \usepackage{booktabs}
        \begin{tabular}{lr}
        \toprule
        recipe & gap \\
        \midrule
        mx\_a \& b & $-$0.5 $\pm$ 10 \% \\
        \bottomrule
        \end{tabular}
    """
    notes = [f"% {_one_line(note)}" for note in table.notes]
    rows = [" & ".join(map(_escape, row)) + r" \\" for row in (table.headers, *table.rows)]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            *notes,
            rf"\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def table_markdown(table: Table, *, texts: Container[str] = ()) -> str:
    r"""A table as Markdown, its notes as a list below.

    Args:
        table: to write.
        texts: headers of columns that hold text; they are set left, as the first one is, and the others right.

    Example:
        >>> print(table_markdown(Table(headers=("recipe", "loss"), rows=(("a|b", "2.5"),))), end="")
        | recipe | loss |
        | --- | ---: |
        | a\|b | 2.5 |
    """
    rule = ["---", *("---" if header in texts else "---:" for header in table.headers[1:])]
    lines = [_markdown_row(table.headers), f"| {' | '.join(rule)} |", *map(_markdown_row, table.rows)]
    notes = ["", *(f"- {markdown_text(note)}" for note in table.notes)] if table.notes else []
    return "\n".join([*lines, *notes, ""])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def markdown_text(text: str) -> str:
    r"""Text for Markdown on one line: neither marks, nor HTML, nor a cell's end; underscores inside of words stay.

    Example:
        >>> print(markdown_text("<loss> | fc_1 (grad_output) *"))
        &lt;loss> \| fc_1 (grad_output) \*
    """
    escaped = _MARKS.sub(r"\\\1", _one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda found: _LATEX[found[0]], _one_line(text))


def _one_line(text: str) -> str:
    return _LINES.sub(" ", text)
