"""Which rung is taken, by numbers alone."""

from __future__ import annotations

import pytest

from mixprec.guard import Escalate, Guard, Guardian, Place, Possible, Rewind, Seen, Skip, Snapshots, StateNumbers
from mixprec.records import IncidentRecord

PLACES = (Place(step=40, batch=40), Place(step=20, batch=20), Place(step=0, batch=0))
POSSIBLE = Possible(places=PLACES, narrow=("a", "b"), guilty=("b (weight)",))


def seen(step: int, loss: float = 2.0, *, batch: int | None = None, **facts: object) -> Seen:
    return Seen(step=step, batch=step if batch is None else batch, losses={"loss": loss}, grad_norm=1.0, **facts)  # type: ignore[arg-type]


def warm(settings: Guard | None = None, steps: int = 50) -> Guardian:
    guardian = Guardian(settings or Guard(), recipe="bf16", seed=0)
    for step in range(steps):
        one = seen(step, 2.0 + 0.01 * (step % 3))
        assert guardian.look(one) == []
        guardian.applied(one)
    return guardian


def rung(guardian: Guardian, one: Seen, possible: Possible = POSSIBLE) -> str:
    decision, _ = guardian.decide(guardian.look(one), one, possible)
    return "" if decision is None else decision.rung


def test_bad_batches_are_skipped_up_to_the_limit_and_then_gone_back_from():
    guardian = warm(Guard(skip=Skip(limit=2)))
    assert [rung(guardian, seen(50, 9.0, batch=50 + i)) for i in range(3)] == ["skip", "skip", "rewind"]
    first, second = guardian.book.incidents
    assert (first.batches, first.lost_steps, first.outcome) == ((50, 51), 2, "again")
    assert (second.back_to, second.batches) == (40, tuple(range(40, 53)))


def test_what_comes_again_is_met_by_wider_casts_then_by_older_snapshots_then_by_the_end():
    settings = Guard(skip=None, rewind=Rewind(limit=2), escalate=Escalate(limit=2))
    guardian = warm(settings)
    found = [guardian.decide(guardian.look(one := seen(50, 9.0)), one, POSSIBLE)[0] for _ in range(5)]
    assert [one.rung for one in found if one] == ["rewind", "escalate", "escalate", "rewind", "stop"]
    _, first, second, older, _ = [one for one in found if one]
    assert (first.sites, first.to, second.sites, second.to) == (("b (weight)",), None, ("a", "b"), None)
    assert older.back_to == PLACES[-1]


def test_nothing_to_widen_leaves_the_way_back_and_the_end():
    guardian = warm(Guard(skip=None))
    possible = Possible(places=PLACES)
    assert [rung(guardian, seen(50, 9.0), possible) for _ in range(4)] == ["rewind", "rewind", "rewind", "stop"]


def test_a_run_that_must_not_be_stopped_is_told_of():
    guardian = warm(Guard(skip=None, rewind=None, escalate=None, stops=False))
    assert rung(guardian, seen(50, 9.0)) == ""
    assert [(one.rung, one.action) for one in guardian.book.incidents] == [("tell", "nothing is done")]


def test_limits_count_within_their_window():
    guardian = warm(Guard(skip=None, escalate=None, rewind=Rewind(limit=1, window=100), snapshots=Snapshots(every=10)))
    assert rung(guardian, seen(50, 9.0)) == "rewind"
    for step in range(50, 160):
        guardian.applied(seen(step))
    assert rung(guardian, seen(160, 9.0)) == "rewind"
    assert rung(guardian, seen(161, 9.0)) == "stop"


def test_a_state_at_fault_is_no_batchs_fault():
    guardian = warm()
    one = seen(50, state=StateNumbers(moments={"w (exp_avg)": float("inf")}))
    decision, (record,) = guardian.decide(guardian.look(one), one, POSSIBLE)
    assert decision is not None
    assert (decision.rung, decision.leave_out) == ("rewind", ())
    assert (record.trigger, record.site) == ("moment not finite", "w (exp_avg)")


def test_a_dynamic_scale_may_look_for_its_level_for_a_while():
    guardian = warm()
    one = Seen(step=50, batch=50, losses={"loss": 2.0}, is_finite=False, scaling="dynamic", loss_scale=2.0**16)
    rungs: list[str] = []
    for _ in range(8):
        rungs.append(rung(guardian, one))
        guardian.skipped()
    assert rungs == [""] * 7 + ["rewind"]


@pytest.mark.parametrize(("facts", "factor"), [({"is_finite": False}, 0.5), ({"grad_norm": 0.0}, 2.0)])
def test_a_static_scale_is_brought_to_what_fits(facts: dict[str, object], factor: float):
    guardian = warm()
    one = Seen(step=50, batch=50, losses={"loss": 2.0}, scaling="static", loss_scale=1024.0, **facts)  # type: ignore[arg-type]
    decisions = [guardian.decide(guardian.look(one), one, POSSIBLE)[0] for _ in range(5)]
    found = [decision for decision in decisions if decision is not None]
    assert found[0].rung == "scale"
    assert found[0].factor == factor


def test_an_incident_is_over_after_quiet_steps():
    guardian = warm()
    rung(guardian, seen(50, 9.0))
    told: list[IncidentRecord] = []
    for step in range(50, 65):
        told += guardian.applied(seen(step))
    assert [(one.number, one.outcome, one.resolved) for one in told] == [(1, "recovered", 60)]
    assert not guardian.book.is_acting


def test_a_rehearsal_counts_nothing_and_tells_each_thing_once():
    guardian = warm(Guard(dry_run=True))
    for _ in range(30):
        assert rung(guardian, seen(50, 9.0)) == ""
    assert [(one.rung, one.outcome) for one in guardian.book.incidents] == [("skip", "rehearsed")]


def test_what_was_done_survives_the_way_back_and_a_resume():
    guardian = warm(Guard(skip=None))
    levels = guardian.levels()
    assert rung(guardian, seen(50, 9.0)) == "rewind"
    guardian.went_back(levels)
    other = Guardian(guardian.settings, recipe="bf16", seed=0)
    other.load_state_dict(guardian.state_dict(), 50)
    for one in (guardian, other):
        assert [rung(one, seen(50, 9.0)) for _ in range(3)] == ["escalate"] * 3
    assert other.book.incidents == guardian.book.incidents
