"""Memory by kind and by site as tables of text, which the terminal and the report both show."""

from __future__ import annotations

from collections.abc import Mapping

from ._summary import RecipeSummary, Summary
from ._tables import Table
from ._wording import NOTHING, percent, size

#: Kinds that have a column and a colour of their own, in the order in which they are stacked; the rest is "other".
MEMORY_KINDS = ("weights", "masters", "moments", "gradients", "saved activations", "buffers", "other")
#: Sites that are told by name.
SHOWN_SITES = 10
_PER_PARAMETER = "memory: after each size the bytes per parameter"
_NOT_AT_ONCE = (
    "gradients and saved activations are each told at their most, which is not at the same moment: the peak may be "
    "less than the sum"
)


def grouped(bytes_by_kind: Mapping[str, int]) -> dict[str, int]:
    """Bytes by the kinds that are shown; those that there is nothing of are 0.

    Example:
        >>> grouped({"weights": 8, "counters": 4, "cast workspaces": 2})["other"]
        6
    """
    sums: dict[str, int] = dict.fromkeys(MEMORY_KINDS, 0)
    for kind, n in bytes_by_kind.items():
        sums[kind if kind in sums else "other"] += n
    return sums


def per_parameter(n: int, parameters: int | None) -> str:
    """Bytes per parameter, to two decimals; empty where the parameters were not counted.

    Example:
        >>> per_parameter(48, 10), per_parameter(48, None)
        ('4.80', '')
    """
    return f"{n / parameters:.2f}" if parameters else ""


def memory_table(summary: Summary) -> Table | None:
    """What a step of each recipe needs, by kind, in bytes and in bytes per parameter; ``None``: nothing was measured.

    Example:
        >>> from mixprec.records import MemoryRecord, summarize
        >>> kinds = {"weights": 40, "saved activations": 1000}
        >>> common = {"saved_activation_bytes": 1000, "peak_bytes": 1200, "rss_bytes": 1, "parameters": 10}
        >>> table = memory_table(summarize([MemoryRecord(recipe="a", seed=0, bytes_by_kind=kinds, **common)]))
        >>> table.headers, table.rows
        (('recipe', 'parameters', 'weights', 'saved activations', 'together'),
         (('a', '10', '40 B · 4.00', '1 kB · 100.00', '1.04 kB · 104.00'),))
    """
    measured = {row.recipe: grouped(row.bytes_by_kind) for row in summary.rows if row.bytes_by_kind}
    if not measured:
        return None
    shown = [kind for kind in MEMORY_KINDS if any(kinds[kind] for kinds in measured.values())]
    rows = tuple(_row(row, measured[row.recipe], shown) for row in summary.rows if row.recipe in measured)
    return Table(headers=("recipe", "parameters", *shown, "together"), rows=rows, notes=(_PER_PARAMETER, _NOT_AT_ONCE))


def sites_table(row: RecipeSummary) -> Table | None:
    """Where saved activations are kept: the sites that keep most; ``None``: nothing was measured."""
    if not row.saved_by_site:
        return None
    ordered = sorted(row.saved_by_site.items(), key=lambda item: -item[1])
    total = sum(row.saved_by_site.values())
    cells = [(site, size(n), percent(n / total) if total else NOTHING) for site, n in ordered[:SHOWN_SITES]]
    rest = ordered[SHOWN_SITES:]
    if rest:
        n = sum(n for _, n in rest)
        cells.append((f"{len(rest)} other sites", size(n), percent(n / total) if total else NOTHING))
    return Table(headers=("site", "bytes", "share"), rows=tuple(cells))


def _row(row: RecipeSummary, kinds: Mapping[str, int], shown: list[str]) -> tuple[str, ...]:
    parameters = NOTHING if row.parameters is None else f"{row.parameters:,}"
    cells = (_cell(kinds[kind], row.parameters) for kind in shown)
    return (row.recipe, parameters, *cells, _cell(sum(kinds.values()), row.parameters))


def _cell(n: int, parameters: int | None) -> str:
    share = per_parameter(n, parameters)
    return NOTHING if not n else size(n) + (f" · {share}" if share else "")
