"""What the doctor says: findings in order of weight, and what they are about."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...records import IncidentRecord, is_unresolved, to_json
from .._finding import Finding

#: Version of the JSON object of a diagnosis.
DIAGNOSIS_SCHEMA_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Diagnosed:
    """A finding, with where and how often it was made.

    Attributes:
        finding: the first of its kind at its site.
        recipe: in whose run.
        seeds: in which it was found.
        count: how often.
        last_step: of the last time.
    """

    finding: Finding
    recipe: str
    seeds: tuple[int, ...]
    count: int
    last_step: int


@dataclass(frozen=True, kw_only=True)
class DumpSummary:
    """A dump of the flight recorder.

    Attributes:
        path: its folder.
        reason: what it was written for.
        detail: in one line.
        step: applied steps then.
        steps: how many it holds.
        has_batch: whether the arguments of the model's last passes are in it.
    """

    path: Path
    reason: str
    detail: str
    step: int
    steps: int
    has_batch: bool


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What was wrong with a run.

    Attributes:
        path: the run folder.
        kind: ``"training"`` or ``"comparison"``.
        about: what was looked at: recipes, seeds, steps, the last loss; one line for each run.
        findings: in order of weight: faults, then warnings, then notes.
        dumps: of the flight recorder, oldest first.
        left_out: what could not be read.
        incidents: what a guard saw and did, run by run, oldest first.
    """

    path: Path
    kind: str
    about: tuple[str, ...]
    findings: tuple[Diagnosed, ...]
    dumps: tuple[DumpSummary, ...]
    left_out: tuple[str, ...]
    incidents: tuple[IncidentRecord, ...] = ()

    @property
    def faults(self) -> int:
        """How many findings are faults, with the incidents that are open or stopped their run."""
        found = sum(found.finding.severity == "fault" for found in self.findings)
        return found + sum(map(is_unresolved, self.incidents))

    def to_json(self) -> str:
        """As one JSON object; numbers that are not finite are ``"nan"``, ``"inf"`` and ``"-inf"``.

        Example:
            >>> nothing = Diagnosis(path=Path("a"), kind="training", about=(), findings=(), dumps=(), left_out=())
            >>> json.loads(nothing.to_json())["faults"]
            0
        """
        body = {
            "schema": DIAGNOSIS_SCHEMA_VERSION,
            "type": "diagnosis",
            "path": str(self.path),
            "kind": self.kind,
            "about": list(self.about),
            "faults": self.faults,
            "findings": [_finding(found) for found in self.findings],
            "incidents": [to_json(vars(incident)) for incident in self.incidents],
            "dumps": [{**vars(dump), "path": str(dump.path)} for dump in self.dumps],
            "left_out": list(self.left_out),
        }
        return json.dumps(body, indent=2, allow_nan=False) + "\n"


def _finding(found: Diagnosed) -> dict[str, Any]:
    finding = found.finding
    return {
        "name": finding.name,
        "severity": finding.severity,
        "site": finding.site,
        "message": finding.message,
        "evidence": _finite(finding.evidence),
        "threshold": finding.threshold,
        "remedy": finding.remedy,
        "rule": finding.rule,
        "recipe": found.recipe,
        "seeds": list(found.seeds),
        "step": finding.step,
        "last_step": found.last_step,
        "count": found.count,
    }


def _finite(evidence: Mapping[str, float | str]) -> dict[str, float | str]:
    return {
        name: str(float(value)) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in evidence.items()
    }
