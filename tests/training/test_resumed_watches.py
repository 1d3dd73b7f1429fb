"""Who watches a session goes on with it: a resumed run tells what the uninterrupted one does, in the same steps."""

from __future__ import annotations

import functools
import math

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

from mixprec.monitor import Monitoring, QuietWatch, Thresholds
from mixprec.records import StatisticsRecord, UpdateRecord, read_records
from mixprec.specs import LossScale
from mixprec.training import prepare

STEPS = 34
#: What each step's loss is multiplied by: a calm curve, a spike, steps that are not finite, another level.
FACTORS = [1.0 + 0.01 * (i % 3) for i in range(STEPS)]
FACTORS[13] = FACTORS[14] = 50.0
FACTORS[20:24] = [math.inf] * 4
FACTORS[28:] = [8.0] * (STEPS - 28)


class Counts(QuietWatch):
    """A user's own watch with a state."""

    def __init__(self):
        self.seen = torch.zeros(2)

    def after_update(self, facts):
        self.seen[0] += 1
        return ()

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"].clone()


def session_of(run, every=7, recipe="fp16"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    scale = LossScale(kind="dynamic", initial=2.0**10) if recipe == "fp16" else None
    counts = Counts()
    monitor = Monitoring(every=every, watches=(counts,), thresholds=Thresholds(window=8, smoothing=4, rearm=6))
    return prepare(model, optimizer, recipe, run=run, loss_scale=scale, monitor=monitor), counts


def step(session, i):
    draw = torch.Generator().manual_seed(i)
    loss = session.model(torch.randn(16, 8, generator=draw)).float().square().mean()
    level = loss - loss.detach() + 1.0  # the curve is the factors' own
    result = session.step(level * FACTORS[i])
    return [(e.step, e.name, e.site) for e in result.events if e.name != "recorder dump"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """By recipe: what each step told, what the user's own watch has counted, and the run folder."""

    @functools.cache
    def of(recipe):
        run = tmp_path_factory.mktemp("whole")
        session, counts = session_of(run, recipe=recipe)
        told = [step(session, i) for i in range(STEPS)]
        session.restore()
        return told, counts.seen, run

    return of


@pytest.mark.parametrize("recipe", ["fp16", "bf16"])
@pytest.mark.parametrize("way", ["save", "state_dict"])
@pytest.mark.parametrize("stop", [3, 14, 22, 30])
def test_events_and_samples_are_those_of_the_run_that_was_never_stopped(tmp_path, uninterrupted, recipe, way, stop):
    expected, counted, run = uninterrupted(recipe)
    assert {"loss spike", "gradient spike", "skipped"} <= {name for told in expected for _, name, _ in told}
    first, _ = session_of(tmp_path / "run", recipe=recipe)
    found = [step(first, i) for i in range(stop)]
    if way == "save":
        first.save()
    else:
        torch.save((first.model.state_dict(), first.optimizer.state_dict(), first.state_dict()), tmp_path / "state.pt")
    for i in range(stop, min(stop + 3, STEPS)):  # steps that a crash loses
        step(first, i)
    first.restore()
    second, counts = session_of(tmp_path / "run", recipe=recipe)
    if way == "save":
        second.resume()
    else:
        model, optimizer, state = torch.load(tmp_path / "state.pt", weights_only=True)
        second.model.load_state_dict(model)
        second.optimizer.load_state_dict(optimizer)
        second.load_state_dict(state)
    found += [step(second, i) for i in range(stop, STEPS)]
    assert found[stop:] == expected[stop:]
    assert torch.equal(counts.seen, counted)
    if way == "save":
        for kind in (StatisticsRecord, UpdateRecord):
            wanted = {(r.step, r.site) for r in read_records(run / "records.jsonl") if isinstance(r, kind)}
            here = {(r.step, r.site) for r in read_records(tmp_path / "run" / "records.jsonl") if isinstance(r, kind)}
            assert wanted <= here


def test_a_state_without_watches_samples_on_by_its_step(tmp_path):
    """As one of an earlier version, or of a session that nobody watched."""
    first, _ = session_of(tmp_path / "a", every=4)
    for i in range(6):
        step(first, i)
    state = first.state_dict()
    state["monitor"] = {}
    second, _ = session_of(tmp_path / "b", every=4)
    second.load_state_dict(state)
    for i in range(6, 10):
        step(second, i)
    records = read_records(tmp_path / "b" / "records.jsonl")
    assert {r.step for r in records if isinstance(r, StatisticsRecord)} == {8}


def test_other_watches_take_of_a_state_what_is_theirs(tmp_path):
    first, _ = session_of(tmp_path / "a")
    for i in range(3):
        step(first, i)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    scale = LossScale(kind="dynamic", initial=2.0**10)
    plain = prepare(model, torch.optim.SGD(model.parameters(), lr=1e-4), "fp16", monitor=None, loss_scale=scale)
    plain.load_state_dict(first.state_dict())
    again, _ = session_of(tmp_path / "b")
    again.load_state_dict(plain.state_dict())
    assert (plain.applied, again.applied) == (3, 3)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_distributed_checkpoints_hold_it(tmp_path, uninterrupted):
    expected, _, _ = uninterrupted("bf16")
    first, _ = session_of(tmp_path / "a", recipe="bf16")
    for i in range(12):
        step(first, i)
    state = {"model": first.model.state_dict(), "optimizer": first.optimizer.state_dict(), "session": first}
    dcp.save(state, checkpoint_id=str(tmp_path / "dcp"))
    second, _ = session_of(tmp_path / "b", recipe="bf16")
    state = {"model": second.model.state_dict(), "optimizer": second.optimizer.state_dict(), "session": second}
    dcp.load(state, checkpoint_id=str(tmp_path / "dcp"))
    second.model.load_state_dict(state["model"])
    assert [step(second, i) for i in range(12, STEPS)] == expected[12:]


def test_a_watch_whose_state_cannot_be_saved_is_named(tmp_path):
    class Odd(Counts):
        def state_dict(self):
            return {"seen": object()}

    model = nn.Linear(2, 1)
    odd = Monitoring(watches=(Odd(),))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", run=tmp_path, monitor=odd)
    with pytest.raises(TypeError, match="own"):
        session.save()
