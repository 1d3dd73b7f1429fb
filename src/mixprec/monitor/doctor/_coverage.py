"""What a run's GEMMs ran in: formats without a gain in speed, and products that the recipe missed."""

from __future__ import annotations

from collections import defaultdict

from ...records import CoverageRecord, count, percent
from .._finding import Finding
from ..alarms import Thresholds
from ._contents import OneRun, RunContents

_NAMED = 5


def coverage_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """Of the step that was measured."""
    if run.coverage is None:
        return []
    return [*_emulated(run.coverage, contents), *_uncovered(run.coverage)]


def _emulated(coverage: CoverageRecord, contents: RunContents) -> list[Finding]:
    flops: defaultdict[str, int] = defaultdict(int)
    formats: dict[str, None] = {}
    for row in coverage.rows:
        flops[row["engine"]] += row["flops"]
        if row["engine"] == "emulated":
            formats[row["format"]] = None
    total = sum(flops.values())
    if not flops["emulated"]:
        return []
    device = str(contents.versions.get("device", "cpu"))
    share = flops["emulated"] / total if total else 1.0
    return [
        Finding(
            step=0,
            name="emulated without gain",
            severity="note" if device == "cpu" else "warning",
            message=f"{percent(share)} of the GEMM FLOPs ran emulated on {device} (in {', '.join(formats)}): exact "
            "numbers, no gain in speed",
            evidence={"share": share, "device": device},
            threshold="none",
            remedy="where speed is what the format is for: one that runs natively on the device (`mixprec doctor` "
            "lists them), or recipe 'auto'",
        )
    ]


def _uncovered(coverage: CoverageRecord) -> list[Finding]:
    if not coverage.uncovered:
        return []
    names = list(coverage.uncovered)
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return [
        Finding(
            step=0,
            name="uncovered GEMMs",
            severity="warning",
            site=names[0] if len(names) == 1 else "",
            message=f"{count(len(names), 'GEMM')} ran outside the recipe: {shown}",
            evidence={"GEMMs": float(len(names))},
            threshold="none",
            remedy="register the module's class (mixprec.nn.register_layer), or call mixprec.functional in its forward "
            "pass",
        )
    ]
