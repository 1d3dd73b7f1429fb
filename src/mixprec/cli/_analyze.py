"""``mixprec analyze``: what casts would do to the tensors of a file."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ._output_file import STDOUT, OutputFile

if TYPE_CHECKING:
    from mixprec.records import AnalysisRecord

Sort = Literal["snr", "flushed", "saturated", "name"]

DEFAULT_CASTS = "mxfp8,mxfp4,nvfp4"
# A comma, unless a bracket that was opened before it is closed only after it.
_COMMA = re.compile(r",(?![^\[(]*[\])])")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec analyze` can be told."""

    casts: str = DEFAULT_CASTS
    """Casts in their one-line form, comma-separated, e.g. `"mxfp4 rceil,nvfp4 sr,e4m3[row]"`."""
    match: str = "*"
    """Only tensors whose name matches this glob, e.g. `"*.mlp.*"`."""
    exclude: str = ""
    """Not the tensors whose name matches this glob."""
    sort: Sort = "snr"
    """What puts a tensor on top: the lowest SNR, the largest share flushed or saturated, or its name."""
    top: int = 10
    """How many tensors the table shows; 0 shows all. The files hold all of them."""
    json: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """Write the analysis to this file as JSON; `-` prints it instead of the table."""
    csv: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    """Write a row for each tensor and cast to this file as CSV; `-` prints it instead of the table."""


def command(file: Path, /, *, options: Annotated[Options, Parameter(name="*")] = Options()) -> int:
    """Show what casts would do to the tensors of a file: SNR (SQNR), shares flushed to zero and saturated, bits.

    Every floating-point tensor of at least one dimension is rounded under every cast; others are named, with the
    reason. Blocks lie along the last axis: the reduction of a forward product with a weight [N, K].

    For example:

    - `mixprec analyze model.safetensors --casts mxfp4,nvfp4`
    - `mixprec analyze checkpoint.pt --match "*.mlp.*" --sort flushed --top 20`
    - `mixprec analyze ./Llama --casts "e4m3[row],mxfp8" --json analysis.json --csv analysis.csv`

    Args:
        file: a safetensors file, one that torch.save wrote (read with weights_only=True), an index of shards
            (`model.safetensors.index.json`), or a folder with one of these.
        options: the rest.
    """
    casts = split_casts(options.casts)
    _check(options, casts)
    from mixprec.records import analysis_csv, analysis_json

    forms = ((options.json, analysis_json), (options.csv, analysis_csv))
    with ExitStack() as stack:
        # Entered before the work, so that a place that cannot be written is told at once.
        outputs = [(stack.enter_context(OutputFile(path)), form) for path, form in forms if path is not None]
        record = _analyze(file, casts, options)
        for output, form in outputs:
            output.write(form(record))
    if STDOUT not in (options.json, options.csv):
        from ._analysis_table import print_analysis

        print_analysis(record, sort=options.sort, top=options.top)
        for path in (options.json, options.csv):
            if path is not None:
                print(f"wrote {path}")
    return 0


def split_casts(text: str) -> list[str]:
    """Casts from a comma-separated list; a comma inside brackets or parentheses belongs to a cast.

    Example:
        >>> split_casts("mxfp4 sr, e4m3[row]")
        ['mxfp4 sr', 'e4m3[row]']
    """
    return [part.strip() for part in _COMMA.split(text)] if text.strip() else []


def _check(options: Options, casts: list[str]) -> None:
    """Refuse what can be refused before torch is loaded."""
    from mixprec.specs import parse_cast

    if options.top < 0:
        raise ValueError(f"--top must be at least 0, got {options.top}; 0 shows all tensors")
    if not casts:
        raise ValueError(f"--casts names no cast: expected some, comma-separated, such as {DEFAULT_CASTS}")
    if "" in casts:
        raise ValueError(f"--casts '{options.casts}' has an empty cast: expected casts with a comma between two")
    for cast in casts:
        parse_cast(cast)
    if options.json is not None and options.json == options.csv:
        raise ValueError(f"--json and --csv both name {options.json}: give each its own file")


def _analyze(file: Path, casts: list[str], options: Options) -> AnalysisRecord:
    """The analysis, with a bar on stderr where that is a terminal."""
    import sys

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from mixprec.tensors import analyze_file

    console = Console(file=sys.stderr)
    columns = (TextColumn("rounding"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return analyze_file(file, casts, match=options.match, exclude=options.exclude, on_progress=show)
