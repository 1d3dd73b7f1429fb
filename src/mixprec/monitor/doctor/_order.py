"""Which finding matters most: causes before what follows from them."""

from __future__ import annotations

from collections.abc import Iterable

from ._diagnosis import Diagnosed

_SEVERITIES = ("fault", "warning", "note")
#: Within a severity; what is not named here (a located fault, a check) names a cause, and comes first.
_KINDS = (
    "crash",
    "run failed",
    "non-finite operand",
    "non-finite step",
    "loss not finite",
    "run diverged",
    "loss scale at floor",
    "loss scale collapse",
    "steps skipped in a row",
    "stalled weights",
    "saturated",
    "flushed",
    "noise",
    "rising saturated",
    "rising flushed",
    "loss spike",
    "loss rise",
    "gradient-norm drift",
    "gradient spike",
    "many skipped steps",
    "uncovered GEMMs",
    "emulated without gain",
    "loss scale alarm",
    "run stopped short",
    "terminated",
    "run interrupted",
    "versions",
)
_RANK = {name: rank for rank, name in enumerate(_KINDS, 1)}


def in_order(findings: Iterable[Diagnosed]) -> tuple[Diagnosed, ...]:
    """Faults, warnings, notes; within each by kind, then the most frequent, then the earliest."""

    def key(found: Diagnosed) -> tuple[int, int, int, int]:
        finding = found.finding
        return _SEVERITIES.index(finding.severity), _RANK.get(finding.name, 0), -found.count, finding.step

    return tuple(sorted(findings, key=key))
