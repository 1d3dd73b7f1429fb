"""The findings of one check, each told once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .._finding import Finding

_ORDER = {"fault": 0, "warning": 1, "note": 2}


class Findings:
    """Collects findings; what many places share is one finding, which says how many they are.

    Places share a finding where it has the same name, and the same line of the user's; so do parameters and buffers.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Finding]] = {}

    def add(self, found: Iterable[Finding]) -> None:
        """Take findings."""
        for finding in found:
            is_operation = finding.site.endswith(")")
            place = finding.evidence.get("line") or (finding.site if is_operation else "")
            key = finding.name, str(place) if finding.site != "<model>" else finding.message
            same = self._found.setdefault(key, [])
            if all((f.site, f.severity) != (finding.site, finding.severity) for f in same):
                same.append(finding)

    def all(self) -> tuple[Finding, ...]:
        """The faults first; of several places the worst."""
        told = [_one(same) for same in self._found.values()]
        return tuple(sorted(told, key=lambda finding: _ORDER[finding.severity]))


def _one(same: list[Finding]) -> Finding:
    worst = min(same, key=lambda finding: _ORDER[finding.severity])
    others = list(dict.fromkeys(f.site for f in same if f.site != worst.site))
    if not others:
        return worst
    more = f" (so too: {', '.join(others[:3])}{f' and {len(others) - 3} more' if len(others) > 3 else ''})"
    return replace(worst, message=worst.message + more, evidence={**worst.evidence, "places": len(others) + 1})
