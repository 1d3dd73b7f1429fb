"""Findings as lines of a table, the gravest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mixprec.records import FindingRecord, RecipeRecords

from .._figures import magnitude

_GRAVITY = ("fault", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """Findings of one kind at one site, as one line; message, evidence and the rest are the first one's."""

    recipe: str
    name: str
    severity: str
    site: str
    times: int
    steps: str
    message: str
    evidence: str
    threshold: str
    remedy: str
    rule: str


def finding_lines(recipes: Mapping[str, RecipeRecords]) -> list[FindingLine]:
    """The findings of all recipes."""
    alike: dict[tuple[str, str, str, str], list[FindingRecord]] = {}
    for recipe, own in recipes.items():
        for finding in own.findings:
            alike.setdefault((recipe, finding.severity, finding.name, finding.site), []).append(finding)
    ordered = sorted(alike.values(), key=lambda found: (_GRAVITY.index(found[0].severity), found[0].step))
    return [_line(found) for found in ordered]


def _line(found: list[FindingRecord]) -> FindingLine:
    first = found[0]
    low, high = min(finding.step for finding in found), max(finding.step for finding in found)
    return FindingLine(
        recipe=first.recipe,
        name=first.name,
        severity=first.severity,
        site="" if first.site in first.message else first.site,
        times=len(found),
        steps=str(low) if low == high else f"{low} to {high}",
        message=first.message,
        evidence=", ".join(
            f"{name} {magnitude(value) if isinstance(value, float | int) else value}"
            for name, value in first.evidence.items()
        ),
        threshold=first.threshold,
        remedy=first.remedy,
        rule=first.rule,
    )
