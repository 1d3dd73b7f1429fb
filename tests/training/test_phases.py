"""A recipe with phases: the change between them, and what the audit tells of each."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from mixprec.specs import LayerPrecision, Phase, Recipe, Rule
from mixprec.training import Session, prepare


def rules(cast: str) -> tuple[Rule, ...]:
    return (Rule(precision=LayerPrecision.uniform(cast)),)


LATE = Recipe(
    name="late", rules=rules("mxfp4"), phases=(Phase(from_step=2, rules=rules("mxfp8")), Phase(from_step=4, rules=()))
)


def build(recipe: Recipe = LATE, *, total_steps: int | None = None) -> Session:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    return prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01), recipe, total_steps=total_steps)


def train(session: Session, steps: int) -> list[str]:
    """Formats that the audit shows after each step."""
    found: list[str] = []
    for _ in range(steps):
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(session.applied))
        assert session.step(session.model(x).square().mean()).applied
        found.append("+".join(session.audit().shares))
    return found


def test_each_phase_is_measured_in_its_first_step():
    session = build()
    assert train(session, 6) == ["mxfp4", "mxfp4", "mxfp8", "mxfp8", "fp32", "fp32"]
    assert session.audit().from_step == 4
    assert "GEMMs of one step, measured at step 4\n" in str(session.audit())
    assert [e.step for e in session.events if e.name == "phase"] == [2, 4]


def test_the_audit_says_that_a_phase_is_not_measured_yet():
    session = build()
    train(session, 2)
    audit = session.audit()
    assert audit.shares == {"mxfp4": 1.0}
    assert audit.from_step == 0
    (note,) = audit.notes
    assert note == "from step 2 on the rules of a later phase hold, which are not measured yet: run one training step"
    assert note in str(audit)
    train(session, 1)
    assert not session.audit().notes


def test_a_recipe_without_phases_is_measured_once():
    session = build(Recipe(name="plain", rules=rules("mxfp8")))
    train(session, 3)
    assert session.audit().from_step == 0
    assert "measured at" not in str(session.audit())


def test_evaluation_between_two_phases_is_not_counted():
    quiet, evaluated = build(), build()
    for session in (quiet, evaluated):
        train(session, 2)
    with torch.no_grad():
        evaluated.model(torch.randn(100, 32))
    train(quiet, 1)
    train(evaluated, 1)
    assert evaluated.audit().rows == quiet.audit().rows


def test_a_phase_is_a_share_of_the_run():
    shared = Recipe(name="shared", rules=rules("mxfp4"), phases=(Phase(last=0.25, rules=rules("mxfp8")),))
    assert train(build(shared, total_steps=4), 4) == ["mxfp4", "mxfp4", "mxfp4", "mxfp8"]
    with pytest.raises(ValueError, match=r"a share of the run: say its length, prepare\(..., total_steps=10_000\)"):
        build(shared)


def test_a_resumed_session_measures_the_phase_that_it_resumes_in():
    session = build()
    train(session, 3)
    states = copy.deepcopy((session.state_dict(), session.model.state_dict(), session.optimizer.state_dict()))
    resumed = build()
    train(resumed, 1)
    resumed.load_state_dict(states[0])
    resumed.model.load_state_dict(states[1])
    resumed.optimizer.load_state_dict(states[2])
    assert train(resumed, 1) == train(session, 1) == ["mxfp8"]
    assert resumed.audit().from_step == 3
    assert all(a.equal(b) for a, b in zip(resumed.model.parameters(), session.model.parameters(), strict=True))
    resumed.load_state_dict({**states[0], "applied": 0})
    assert train(resumed, 1) == ["mxfp4"]


def test_weights_and_moments_are_carried_over():
    session, plain = build(), build(Recipe(name="plain", rules=rules("mxfp4")))
    train(session, 2)
    train(plain, 2)
    assert all(a.equal(b) for a, b in zip(session.model.parameters(), plain.model.parameters(), strict=True))
    assert {state["step"].item() for state in session.optimizer.state.values()} == {2.0}


def test_a_phase_that_the_run_ends_before_is_told():
    session = build(total_steps=4)
    note = "recipe late: the phase from step 4 on never begins, for the run has 4 steps"
    assert session.notes == (note,)
    assert note in str(session)
    assert build(total_steps=5).notes == ()
