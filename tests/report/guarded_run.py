"""A session's run that a guard has taken back once, made without training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixprec.records import RESUMED, EventRecord, IncidentRecord, Record, write_records
from tests.report.monitored_run import RECIPE, SEED, _step

#: The first step whose loss rises, the one before which that is seen, where the run goes back to, and its length.
ROSE, SEEN, BACK_TO, STEPS = 98, 100, 90, 150


def incident(number: int = 1, **changed: Any) -> IncidentRecord:
    facts = {
        **{"recipe": RECIPE, "seed": SEED},
        **{"step": SEEN, "trigger": "loss spike", "site": "blocks.0.attn.qkv (input)", "evidence": {"loss": 9.1}},
        **{"rung": "rewind", "action": f"back to step {BACK_TO}, batches 97 to 99 left out", "back_to": BACK_TO},
        **{"batches": (97, 98, 99), "lost_steps": 10, "lost_seconds": 2.5},
    }
    return IncidentRecord(number=number, **{**facts, **changed})


def resumed(step: int = BACK_TO) -> EventRecord:
    return EventRecord(recipe=RECIPE, seed=SEED, step=step, name=RESUMED, site="", message=f"went back to step {step}")


def guarded() -> Iterator[Record]:
    """The records of the run."""
    yield from (_step(step, 9.1 if step >= ROSE else 2.0, applied=True) for step in range(SEEN))
    yield incident()
    yield resumed()
    yield from (_step(step, 1.9, applied=True) for step in range(BACK_TO, 120))
    yield replace(incident(), outcome="recovered", resolved=120)
    yield from (_step(step, 1.8, applied=True) for step in range(120, STEPS))


def write_guarded_run(path: Path) -> Path:
    """The folder as a session leaves it."""
    path.mkdir(parents=True)
    (path / "recipe.toml").write_text('name = "fp16"\ncompute_dtype = "fp16"\n', encoding="utf-8")
    write_records(path / "records.jsonl", guarded())
    return path
