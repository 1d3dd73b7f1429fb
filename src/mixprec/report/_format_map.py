"""The format of every GEMM by layer: the audit as a map, layers that are alike in one row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixprec.records import RecipeRecords

#: Rows that are shown; a model of more kinds of layers has the rest in `formats.csv`.
_ROWS = 120
#: The three products of a layer have columns of their own; others (``mm`` of a function) share one.
GEMMS = ("fprop", "dgrad", "wgrad")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True)
class FormatCell:
    """What one recipe's GEMM of a layer runs in; ``key`` is the letter that the legend explains, ``-1`` no colour."""

    key: str
    color: int
    told: str


@dataclass(frozen=True, kw_only=True)
class FormatRow:
    """Layers that are alike.

    Attributes:
        name: with the numbers that they have as ranges, e.g. ``blocks.0–11.mlp.fc1``.
        sites: how many.
        cells: for each recipe its GEMMs, in the order of the map's columns.
    """

    name: str
    sites: int
    cells: tuple[tuple[FormatCell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FormatMap:
    """The map: columns are recipes with their GEMMs; ``left_out`` sites are not shown."""

    recipes: tuple[str, ...]
    gemms: tuple[str, ...]
    rows: tuple[FormatRow, ...]
    legend: tuple[FormatCell, ...]
    sites: int
    left_out: int


#: Site to GEMM to what it runs in.
Audit = dict[str, dict[str, str]]


def audit_of(own: RecipeRecords) -> Audit:
    """What a recipe's GEMMs ran in, of the first seed that tells; an engine is told where it is not the device's."""
    audit: Audit = {}
    for record in own.coverage.values():
        for row in record.rows:
            told = row["format"] + ("" if row["engine"] == "native" else f", {row['engine']}")
            cell = audit.setdefault(row["site"], {})
            before = cell.setdefault(row["gemm"], told)
            if told not in before.split(" + "):
                cell[row["gemm"]] = f"{before} + {told}"
        if record.rows:
            break
    return audit


def format_map(recipes: Mapping[str, RecipeRecords]) -> FormatMap | None:
    """The map of all recipes whose products were counted; ``None`` where none were."""
    audits = {name: audit for name, own in recipes.items() if (audit := audit_of(own))}
    if not audits:
        return None
    sites = list(dict.fromkeys(site for audit in audits.values() for site in audit))
    told = list(dict.fromkeys(gemm for audit in audits.values() for cell in audit.values() for gemm in cell))
    gemms = tuple(gemm for gemm in GEMMS if gemm in told) + tuple(gemm for gemm in told if gemm not in GEMMS)
    formats = _ordered(audits)
    alike: dict[tuple[str, tuple[tuple[str, ...], ...]], list[str]] = {}
    for site in sites:
        cells = tuple(tuple(audit.get(site, {}).get(gemm, "") for gemm in gemms) for audit in audits.values())
        alike.setdefault((_NUMBER.sub("*", site), cells), []).append(site)
    rows = [
        FormatRow(
            name=ranged(members),
            sites=len(members),
            cells=tuple(tuple(_cell(one, formats) for one in own) for own in cells),
        )
        for (_, cells), members in alike.items()
    ]
    return FormatMap(
        recipes=tuple(audits),
        gemms=gemms,
        rows=tuple(rows[:_ROWS]),
        legend=tuple(_cell(name, formats) for name in formats),
        sites=len(sites),
        left_out=sum(row.sites for row in rows[_ROWS:]),
    )


def _ordered(audits: Mapping[str, Audit]) -> list[str]:
    """All that GEMMs run in, the most frequent first."""
    counts: dict[str, int] = {}
    for audit in audits.values():
        for cell in audit.values():
            for told in cell.values():
                counts[told] = counts.get(told, 0) + 1
    return sorted(counts, key=lambda told: -counts[told])


def _cell(told: str, formats: Sequence[str]) -> FormatCell:
    if not told:
        return FormatCell(key="", color=-1, told="none")
    place = formats.index(told)
    letter = _LETTERS[place] if place < len(_LETTERS) else str(place)
    return FormatCell(key=letter, color=place % 8, told=told)


def ranged(sites: Sequence[str]) -> str:
    """Names that differ in numbers as one.

    Example:
        >>> ranged(["blocks.0.fc", "blocks.1.fc", "blocks.2.fc", "blocks.5.fc"]), ranged(["head"])
        ('blocks.0–2,5.fc', 'head')
    """
    numbers = [[int(found) for found in _NUMBER.findall(site)] for site in sites]
    columns = iter(_spans(sorted(set(column))) for column in zip(*numbers, strict=True))
    return _NUMBER.sub(lambda _: next(columns), sites[0])


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][-1] + 1:
            spans[-1].append(n)
        else:
            spans.append([n])
    parts = [str(one[0]) if len(one) == 1 else f"{one[0]}–{one[-1]}" for one in spans]
    return ",".join(parts if len(parts) <= 6 else [*parts[:5], "…", parts[-1]])
