"""What the products of a session's measured step ran in, for its records."""

from __future__ import annotations

from mixprec.records import CoverageRecord, CoverageRow
from mixprec.training import Session


def coverage_of(session: Session, *, recipe: str, seed: int) -> CoverageRecord:
    """Format and engine of every product that the audit has seen; recomputed ones are left out."""
    audit = session.audit()
    return CoverageRecord(
        recipe=recipe,
        seed=seed,
        rows=tuple(
            CoverageRow(site=row.site, gemm=row.gemm, format=row.format, engine=row.engine, flops=row.flops)
            for row in audit.rows
            if not row.recomputed
        ),
        uncovered=tuple(f"{row.site} ({row.gemm})" for row in audit.uncovered),
    )
