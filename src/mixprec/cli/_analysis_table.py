"""The tables that an analysis ends with."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import groupby

from mixprec.records import NOTHING, AnalysisRecord, AnalysisRow, AnalysisTotal, SkippedTensor, count

from ._print import print_table

_NAMES_SHOWN = 5

# What puts a tensor on top, from its rows; the smallest key comes first.
_ORDERS: dict[str, tuple[str, Callable[[Sequence[AnalysisRow]], tuple[object, ...]]]] = {
    "snr": ("lowest SNR first", lambda rows: (min(row.snr_db for row in rows),)),
    "flushed": ("most flushed first", lambda rows: (-max(row.flushed for row in rows),)),
    "saturated": ("most saturated first", lambda rows: (-max(row.saturated for row in rows),)),
    "name": ("by name", lambda rows: _natural(rows[0].tensor)),
}


def print_analysis(record: AnalysisRecord, *, sort: str, top: int) -> None:
    """Print the first tensors, the totals of all, what was skipped and what must be read with the figures.

    Args:
        record: the analysis.
        sort: what puts a tensor on top: ``snr``, ``flushed``, ``saturated`` or ``name``.
        top: how many tensors to show; 0 for all.
    """
    words, key = _ORDERS[sort]
    tensors = sorted((list(rows) for _, rows in groupby(record.rows, lambda row: row.tensor)), key=key)
    shown = tensors[:top] if top else tensors
    number = count(len(tensors), "tensor") if len(shown) == len(tensors) else f"{len(shown)} of {len(tensors)} tensors"
    header = ("tensor", "cast", ">bits", ">SNR [dB]", ">flushed", ">saturated")
    # Not as a title: that would be folded to the table's width, and a path must stay whole to be copied.
    print(f"{record.source}: {number}, {words}")
    print_table(header, map(_cells, shown), folding="tensor")
    header = ("cast", ">bits", ">SNR [dB]", ">flushed", ">saturated", ">lowest SNR", "of tensor")
    print_table(header, map(_total_cells, record.totals), title=_all(record.totals), folding="of tensor")
    for note in (*record.notes, *_skipped(record.skipped, every=not top)):
        print(f"- {note}")


def _all(totals: Sequence[AnalysisTotal]) -> str:
    return f"all {totals[0].elements:,} elements of {count(totals[0].tensors, 'tensor')}"


def _cells(rows: Sequence[AnalysisRow]) -> tuple[str, ...]:
    """One tensor: its name, shape and dtype, and a line for each cast."""
    lines = [
        (row.cast, f"{row.bits_per_element:.4g}", _ratio(row.snr_db), _share(row.flushed), _share(row.saturated))
        for row in rows
    ]
    shape = "x".join(map(str, rows[0].shape))
    return (f"{rows[0].tensor}\n  {shape} {rows[0].dtype}", *map("\n".join, zip(*lines, strict=True)))


def _total_cells(total: AnalysisTotal) -> tuple[str, ...]:
    figures = (f"{total.bits_per_element:.4g}", _ratio(total.snr_db), _share(total.flushed), _share(total.saturated))
    return (total.cast, *figures, _ratio(total.lowest_snr_db), total.lowest_snr_tensor)


def _ratio(decibel: float) -> str:
    """A ratio in decibel.

    Example:
        >>> _ratio(18.6123), _ratio(math.inf), _ratio(math.nan)
        ('18.61', 'exact', '–')
    """
    if math.isnan(decibel):
        return NOTHING
    return "exact" if decibel == math.inf else f"{decibel:.2f}"


def _share(share: float) -> str:
    """A share; what is not nothing is never shown as such.

    Example:
        >>> _share(0.0691), _share(0.0), _share(1e-7)
        ('6.91 %', '0', '<0.01 %')
    """
    if share == 0.0:
        return "0"
    return "<0.01 %" if share < 1e-4 else f"{100 * share:.2f} %"


def _natural(name: str) -> tuple[object, ...]:
    """A key under which ``h.2`` comes before ``h.10``."""
    return tuple((part.zfill(20) if part.isdigit() else part) for part in re.split(r"([0-9]+)", name))


def _skipped(skipped: Sequence[SkippedTensor], *, every: bool) -> list[str]:
    """A line for each reason, with the names of the first tensors, or of every one."""
    lines: list[str] = []
    for reason in dict.fromkeys(tensor.reason for tensor in skipped):
        names = [tensor.tensor for tensor in skipped if tensor.reason == reason]
        shown = names if every else names[:_NAMES_SHOWN]
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        lines.append(f"skipped {count(len(names), 'tensor')} ({reason}): {', '.join(shown)}{more}")
    return lines
