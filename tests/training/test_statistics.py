"""Buffers that training changes: a skipped step gives them back, however they are reached and written."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn

from mixprec.training import Session, prepare
from mixprec.training._statistics import StatisticsKeeper


class Average(nn.Module):
    """A moving average of its input, kept in one of the ways that people write it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            new = 0.5 * self.mean + 0.5 * x.detach().mean(0)
            if self.way == "in place":
                self.mean.copy_(new)
                self.count += 1
            elif self.way == "assigned":
                self.mean = new
                self.count = self.count + 1
            else:
                self.mean.data.copy_(new)
                self.count.data.add_(1)
        return x - self.mean.clamp(-1, 1)


def sequential(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 2))


MODELS = {
    "batch norm": lambda: sequential(nn.BatchNorm1d(4)),
    "batch norm without momentum": lambda: sequential(nn.BatchNorm1d(4, momentum=None)),
    "spectral norm": lambda: sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))),
    "old spectral norm": lambda: sequential(nn.utils.spectral_norm(nn.Linear(4, 4))),
    "average in place": lambda: sequential(Average("in place")),
    "average assigned": lambda: sequential(Average("assigned")),
    "average through data": lambda: sequential(Average("data")),
}


def build(name: str) -> Session:
    torch.manual_seed(0)
    model = MODELS[name]()
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")


def step(session: Session, seed: int, bad: float = 1.0) -> bool:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
    return session.step((session.model(x * bad)).square().mean() * (bad if math.isinf(bad) else 1.0)).applied


def buffers(session: Session) -> dict[str, Tensor]:
    return {name: b.detach().clone() for name, b in session.model.named_buffers()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_skipped_step_gives_them_back(name, before):
    session = build(name)
    for seed in range(before):
        assert step(session, seed)
    kept = buffers(session)
    for _ in range(2):
        assert not step(session, 7, bad=math.inf)
        assert same(buffers(session), kept)
    assert step(session, 8)
    assert not same(buffers(session), kept)
    assert all(b.isfinite().all() for b in session.model.buffers())


def test_layers_of_other_shapes():
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.InstanceNorm1d(4, track_running_stats=True), nn.Flatten())
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    kept = buffers(session)
    assert not session.step(model(torch.full((2, 2, 8), math.inf)).sum()).applied
    assert same(buffers(session), kept)


def test_parts_that_are_called_by_themselves():
    model = nn.ModuleDict({"g": MODELS["batch norm"](), "d": MODELS["average in place"]()})
    opts = {k: torch.optim.SGD(model[k].parameters(), lr=0.1) for k in "gd"}
    session = prepare(model, opts, "fp32")
    for name in "gd":
        kept = buffers(session)
        assert not session.step(model[name](torch.full((8, 4), math.inf)).sum(), optimizer=name).applied
        assert same(buffers(session), kept)


def test_synchronised_batch_norms_are_known():
    model = nn.SyncBatchNorm(4)  # trains on accelerators only: its forward pass is played by hand
    keeper = StatisticsKeeper(model)
    keeper(model, ())
    model.running_mean.data.fill_(math.nan)
    assert keeper.give_back() == ()
    assert model.running_mean.tolist() == [0.0] * 4


class Late(nn.Module):
    """Changes a buffer from the second step on only."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("table", torch.zeros(size))
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        if self.steps > 2:
            self.table[:4] += x.detach()[0]
        return self.fc(x)


@pytest.mark.parametrize("size", [8, 2**20 + 1])
def test_a_buffer_that_changes_late_is_given_back_or_told(size):
    model = Late(size)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    for _ in range(2):
        assert session.step(model(torch.ones(2, 4)).sum()).applied
    result = session.step(model(torch.full((2, 4), math.inf)).sum())
    # A large buffer is not copied for the replay either, which then finds another one than the step did.
    located = ("bad input data", "<input> (args[0])") if size == 8 else ("not reproduced", "")
    told = [(e.name, e.site) for e in result.events if e.name != "skipped"]
    assert located in told
    told.remove(located)
    if size == 8:
        assert model.table.tolist() == [0.0] * 8
        assert not told
        return
    assert told == [("buffer not given back", "table")]
    model.table.zero_()  # what the user does about it
    assert not session.step(model(torch.full((2, 4), math.inf)).sum()).applied
    assert model.table.count_nonzero() == 0  # known to change from now on


def test_no_copy_of_a_constant_is_kept_and_a_change_is_found_all_the_same():
    model = Late(2**14)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    model(torch.ones(2, 4))
    assert [t.numel() for t in session._statistics.tensors] == [2**14]
    assert session.step(model(torch.ones(2, 4)).sum()).applied
    assert session._statistics.tensors == ()
    assert session.step(model(torch.ones(2, 4)).sum()).applied  # changes it
    changed = model.table.clone()
    assert changed.count_nonzero() == 4
    assert not session.step(model(torch.full((2, 4), math.inf)).sum()).applied
    assert torch.equal(model.table, changed)
    assert not session.step(model(torch.full((2, 4), math.inf)).sum()).applied
    assert torch.equal(model.table, changed)


def test_a_constant_that_a_skipped_step_changes_first_is_told():
    model = Late(2**14)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    for _ in range(2):
        assert session.step(model(torch.ones(2, 4)).sum()).applied
    result = session.step(model(torch.full((2, 4), math.inf)).sum())
    assert ("buffer not given back", "table") in [(e.name, e.site) for e in result.events]


def test_a_write_between_steps_is_the_users_and_stays():
    session = build("average in place")
    assert step(session, 0)
    session.model[1].mean.fill_(0.25)
    assert not step(session, 1, bad=math.inf)
    assert session.model[1].mean.tolist() == [0.25] * 4


def test_evaluation_is_not_training():
    session = build("batch norm")
    session.model.eval()
    session.model(torch.ones(2, 4))
    assert not session._statistics._is_open


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
def test_hooks_do_not_break_a_compiled_graph():
    session = build("batch norm")
    compiled = torch.compile(session.model, backend="eager", fullgraph=True)
    assert session.step(compiled(torch.randn(8, 4)).square().mean()).applied
    session.restore()
    assert not any(m._forward_pre_hooks for m in session.model.modules())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_with_hooks_can_be_copied_and_trains_on(copied):
    session = build("batch norm")
    assert step(session, 0)
    twin = copied(session.model)
    twin.train()(torch.full((4, 4), math.inf))
    assert all(b.isfinite().all() for b in session.model.buffers())
    kept = buffers(session)
    assert not step(session, 1, bad=math.inf)
    assert same(buffers(session), kept)
