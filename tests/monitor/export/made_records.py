"""Records of a run, made by hand."""

from __future__ import annotations

from typing import Any

from mixprec.records import EventRecord, FindingRecord, IncidentRecord, StatisticsRecord, StepRecord, UpdateRecord

RUN: dict[str, Any] = {"recipe": "fp16", "seed": 3}


def step(number: int = 0, **changed: Any) -> StepRecord:
    facts = {"loss": 2.5, "seconds": 0.2, "applied": True, "grad_norm": 0.75, "loss_scale": 1024.0, "tokens": 64}
    return StepRecord(step=number, **{**RUN, **facts, **changed})


def statistics(site: str = "blocks.0.fc", role: str = "input", **changed: Any) -> StatisticsRecord:
    facts = {
        **{"cast": "fp16", "in_use": True, "elements": 100, "zeros": 0.25, "nonfinite": 2, "amax": 48.0},
        **{"flushed": 0.125, "subnormal": 0.0625, "saturated": 0.03125, "sqnr_db": 60.0, "relative_error": 0.001},
        **{"bias": -0.0005, "exponents": {"-3": 10, "-1": 50, "5": 13}, "step": 4},
    }
    return StatisticsRecord(site=site, role=role, **{**RUN, **facts, **changed})


def update(site: str = "blocks.0.fc.weight", **changed: Any) -> UpdateRecord:
    norms = {"weight_norm": 8.0, "gradient_norm": 2.0, "update_norm": 0.5, "ratio": 0.0625, "lost": 0.4}
    return UpdateRecord(site=site, **{**RUN, "step": 4, "dtype": "bf16", **norms, **changed})


def finding(name: str = "loss spike", **changed: Any) -> FindingRecord:
    facts = {"severity": "warning", "site": "", "message": "the loss is 9.1", "evidence": {"loss": 9.1}}
    return FindingRecord(name=name, **{**RUN, "step": 4, **facts, **changed})


def event(name: str = "skipped", **changed: Any) -> EventRecord:
    return EventRecord(name=name, **{**RUN, "step": 4, "site": "", "message": "skipped: inf", **changed})


def incident(number: int = 1, **changed: Any) -> IncidentRecord:
    facts = {
        **{"step": 41, "trigger": "loss spike", "site": "blocks.0.fc (weight)", "evidence": {"loss": 9.1}},
        **{"rung": "rewind", "action": "back to step 36", "back_to": 36, "batches": (39, 40)},
    }
    return IncidentRecord(number=number, **{**RUN, **facts, **changed})
