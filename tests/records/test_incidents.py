"""Incidents among the records of a run: the later of a number stands, and going back forgets none."""

from __future__ import annotations

from dataclasses import replace

from mixprec.records import RESUMED, EventRecord, IncidentRecord, StepRecord, group_by_recipe


def incident(number: int, step: int) -> IncidentRecord:
    return IncidentRecord(
        recipe="fp8",
        seed=0,
        number=number,
        step=step,
        trigger="loss spike",
        site="",
        evidence={"loss": 9.0},
        rung="rewind",
        action="back to step 2",
        back_to=2,
    )


def test_the_later_of_a_number_stands_and_a_resumed_run_keeps_it():
    taken = [
        StepRecord(
            recipe="fp8",
            seed=0,
            step=step,
            loss=1.0,
            seconds=0.1,
            applied=True,
            grad_norm=None,
            loss_scale=None,
            tokens=None,
        )
        for step in range(5)
    ]
    resumed = EventRecord(recipe="fp8", seed=0, step=2, name=RESUMED, site="", message="goes on from step 2")
    ended = replace(incident(1, 4), outcome="recovered", resolved=30)
    _, by_recipe = group_by_recipe([*taken, incident(1, 4), resumed, incident(2, 3), ended])
    own = by_recipe["fp8"]
    assert sorted(own.steps[0]) == [0, 1]
    assert own.incidents == {(0, 1): ended, (0, 2): incident(2, 3)}
