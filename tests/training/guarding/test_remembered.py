"""What a guard remembers goes back with the run, and on with it in another process."""

from __future__ import annotations

import json
from typing import Any

import torch

from mixprec.training import Session

from .runs import Numbers, begin, loss, run


def remembered(session: Session) -> dict[str, Any]:
    return json.loads(session.state_dict()["guard"]["text"])["mind"]["levels"]


def test_what_is_ordinary_is_that_of_the_step_that_the_run_went_back_to():
    session, guarded = begin()
    seen: list[dict[str, Any]] = []
    for i, x in enumerate(guarded.batches(Numbers(90))):
        if i == 65:
            next(iter(session.optimizer.state.values()))["exp_avg"][0, 0] = torch.inf
        session.step(loss(session, x))
        if session.applied == 60:
            seen.append(remembered(session))
    assert [incident.back_to for incident in session.incidents] == [60]
    assert len(seen) == 2
    assert seen[0]["losses"] == seen[1]["losses"]
    assert seen[0]["norms"] == seen[1]["norms"]


def test_a_state_holds_what_was_seen():
    session, guarded = begin()
    run(session, guarded, Numbers(50))
    other, _ = begin()
    other.load_state_dict(session.state_dict())
    assert remembered(other) == remembered(session)
    assert remembered(other)["losses"]["loss"]["past"]
