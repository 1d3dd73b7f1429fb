"""What a step's GEMMs ran in: measured rows, shares by format, and what was not covered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ._observer import GemmKey


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """The GEMMs of one kind at one site in one step.

    ``format`` names both operands where they differ (``e4m3[tensor] x e5m2[tensor]``). ``flops`` counts a
    multiply-add as two. ``covered`` is False for a GEMM that ran outside the recipe. ``recomputed`` GEMMs
    (activation checkpointing) are not in the shares.
    """

    site: str
    gemm: str
    format: str
    engine: str
    flops: int
    covered: bool
    recomputed: bool = False


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Format and engine of every GEMM of one measured step; ``print`` it for a table.

    Attributes:
        recipe: name of the recipe.
        rows: one for each site, GEMM, format and engine, in order of first appearance.
        kept: parameters and buffers that the conversion left in their dtype, by name.
        notes: what was told at conversion.
        from_step: applied steps before the measured one. A session measures the first step, and the first of each
            later phase of its recipe.
    """

    recipe: str
    rows: tuple[AuditRow, ...]
    kept: Mapping[str, str]
    notes: tuple[str, ...] = ()
    from_step: int = 0

    @property
    def flops(self) -> int:
        """FLOPs of the step's GEMMs, recomputation left out."""
        return sum(row.flops for row in self.rows if not row.recomputed)

    @property
    def shares(self) -> dict[str, float]:
        """Share of the GEMM FLOPs by format."""
        return self._shares(lambda row: row.format)

    @property
    def engines(self) -> dict[str, float]:
        """Share of the GEMM FLOPs by engine."""
        return self._shares(lambda row: row.engine)

    def share(self, format: str) -> float:
        """Share of the GEMM FLOPs whose operands both are in ``format``."""
        return self.shares.get(format, 0.0)

    @property
    def uncovered(self) -> tuple[AuditRow, ...]:
        """GEMMs that the recipe did not reach, by name."""
        return tuple(row for row in self.rows if not row.covered)

    def _shares(self, key: Callable[[AuditRow], str]) -> dict[str, float]:
        sums: defaultdict[str, int] = defaultdict(int)
        for row in self.rows:
            if not row.recomputed:
                sums[key(row)] += row.flops
        total = sum(sums.values())
        return {name: n / total for name, n in sorted(sums.items(), key=lambda item: -item[1])} if total else {}

    def __str__(self) -> str:
        if not self.rows:
            return f"audit of recipe {self.recipe}: no GEMM was measured; run one training step first"
        since = f", measured at step {self.from_step}" if self.from_step else ""
        lines = [f"audit of recipe {self.recipe}: {self.flops / 1e9:.3g} GFLOP in GEMMs of one step{since}"]
        for title, shares in (("format", self.shares), ("engine", self.engines)):
            lines.append(f"  by {title}: " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items()))
        lines += _table(self.rows)
        if self.uncovered:
            lines.append(
                "  not covered: " + ", ".join(f"{row.site} ({row.gemm}, {row.format})" for row in self.uncovered)
            )
        lines += [f"  kept: {name} as {kind}" for name, kind in self.kept.items()]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def make_rows(flops: Mapping[GemmKey, int]) -> tuple[AuditRow, ...]:
    """Rows from what an observer counted."""
    return tuple(
        AuditRow(
            site=key.site,
            gemm=key.gemm,
            format=_pair(key.formats),
            engine=key.engine,
            flops=n,
            covered=key.covered,
            recomputed=key.recomputed,
        )
        for key, n in flops.items()
    )


def _pair(formats: tuple[str, str]) -> str:
    return formats[0] if formats[0] == formats[1] else " x ".join(formats)


def _table(rows: Iterable[AuditRow]) -> list[str]:
    cells = [("site", "GEMM", "format", "engine", "MFLOP")]
    for row in rows:
        gemm = f"{row.gemm} (recomputed)" if row.recomputed else row.gemm
        cells.append((row.site, gemm, row.format, row.engine, f"{row.flops / 1e6:.1f}"))
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    return [
        "  "
        + "  ".join(c.rjust(w) if i == 4 else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    ]
