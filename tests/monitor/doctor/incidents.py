"""Runs with incidents, made by hand: one that a guard took back and gave wider casts, one that it stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixprec.records import RESUMED, FindingRecord, IncidentRecord, Record
from tests.monitor.doctor.records import calm, event, step

WIDENED = "blocks.0.fc: fprop weight, dgrad weight mxfp4 -> mxfp8 rceil"


def incident(number: int = 1, **changes: Any) -> IncidentRecord:
    values = {
        "recipe": "mine",
        "seed": 0,
        "step": 41,
        "trigger": "loss spike",
        "site": "blocks.0.fc (weight)",
        "evidence": {"loss": 9.1, "median": 1.98},
        "rung": "rewind",
        "action": "back to step 36, batches 39 to 40 left out",
        "back_to": 36,
        "batches": (39, 40),
        "lost_steps": 5,
        "lost_seconds": 0.5,
        **changes,
    }
    return IncidentRecord(number=number, **values)


def finding(number: int, **changes: Any) -> FindingRecord:
    values = {"name": "loss spike", "severity": "warning", "site": "", "message": "the loss is 9.1", "evidence": {}}
    return FindingRecord(recipe="mine", seed=0, step=number, **{**values, **changes})


def escalated() -> list[Record]:
    """A step is skipped; the same comes again, and the run goes back and on with a wider weight."""
    skip = incident(1, step=20, rung="skip", action="the step was skipped", back_to=None, batches=(20,), lost_steps=1)
    wider = incident(2, rung="escalate", action="back to step 36, blocks.0.fc (weight) widened")
    return [
        *calm(20),
        skip,
        *calm(20, first=20),
        step(40, 9.1, grad_norm=31.0),
        finding(41),
        event(41, "loss spike", "the loss is 9.1"),
        wider,
        replace(skip, outcome="again", resolved=41),
        event(36, RESUMED, "went back to step 36"),
        event(36, "widened", WIDENED, "blocks.0.fc"),
        *calm(34, first=36),
        replace(wider, outcome="recovered", resolved=60),
        *calm(40, first=70),
    ]


def stopped() -> list[Record]:
    """The ladder's end."""
    end = incident(1, rung="stop", action="the run was stopped", back_to=None, batches=(), lost_steps=0)
    return [*calm(40), step(40, 9.1), replace(end, outcome="stopped", resolved=41)]
