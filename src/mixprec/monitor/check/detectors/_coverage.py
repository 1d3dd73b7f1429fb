"""Products that the recipe does not reach, and layers whose sizes its blocks do not divide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....nn import Audit
from ..._finding import Finding
from ._detector import Detector, Step

#: Share of the GEMM FLOPs from which on an uncovered site is a warning; below it is a note.
SHARE = 0.01


class CoverageDetector(Detector):
    """GEMMs that ran outside of the recipe, measured: a warning from 1 % of the FLOPs on, else a note.

    And what the conversion told of rules that are about no layer of this model: notes.
    """

    def end(self, step: Step) -> Iterable[Finding]:
        """The audit of the step."""
        if step.audit is None or self.setting.conversion is None:
            return ()
        return self._uncovered(step.audit)

    def _uncovered(self, audit: Audit) -> Iterator[Finding]:
        flops: dict[str, int] = {}
        for row in audit.uncovered:
            if not row.recomputed:
                flops[row.site] = flops.get(row.site, 0) + row.flops
        for site, count in flops.items():
            share = count / max(audit.flops, 1)
            rows = [row for row in audit.uncovered if row.site == site]
            yield Finding(
                step=self.setting.step,
                name="GEMM outside of the recipe",
                severity="warning" if share >= SHARE else "note",
                site=f"{site} ({', '.join(dict.fromkeys(row.gemm for row in rows))})",
                message=f"{100 * share:.1f} % of the GEMM FLOPs run in {rows[0].format} by torch, which recipe "
                f"{audit.recipe} does not reach",
                evidence={"share of FLOPs": share, "format": rows[0].format},
                threshold=f"{SHARE:g} of the GEMM FLOPs (below it a note)",
                remedy="call mixprec.functional in that module, or register its class: mixprec.nn.register_layer",
            )
