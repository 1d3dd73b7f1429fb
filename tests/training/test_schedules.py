"""Learning-rate schedules that the session steps, and averages: both advance on applied steps only."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler as schedulers

import mixprec.optim
from mixprec.training import Session, prepare

BAD = (1, 2)


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(()))

    def forward(self) -> Tensor:
        return self.p


def iterate(session: Session, steps: int = 5) -> list[bool]:
    return [session.step(session.model() * (math.inf if i in BAD else 1.0)).applied for i in range(steps)]


KINDS = {
    "step": lambda o: schedulers.StepLR(o, 1, gamma=0.5),
    "lambda": lambda o: schedulers.LambdaLR(o, lambda n: 0.5**n),
    "sequential": lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o, 0.5), schedulers.ExponentialLR(o, 0.5)], milestones=[2]
    ),
    "chained": lambda o: schedulers.ChainedScheduler([schedulers.ExponentialLR(o, 0.5), schedulers.StepLR(o, 2)]),
    "one cycle": lambda o: schedulers.OneCycleLR(o, max_lr=1.0, total_steps=4),
    "restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 2),
}


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, mixprec.optim.SGD])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_advances_with_applied_steps(kind, optimizer):
    model, plain = One(), One()
    own = optimizer(model.parameters(), lr=1.0, momentum=0.5)
    session = prepare(model, own, "fp32", schedule=KINDS[kind](own))
    assert sum(iterate(session)) == 3
    reference = torch.optim.SGD(plain.parameters(), lr=1.0, momentum=0.5)
    schedule = KINDS[kind](reference)
    for _ in range(3):
        plain().backward()
        reference.step()
        schedule.step()
        reference.zero_grad()
    assert own.param_groups[0]["lr"] == reference.param_groups[0]["lr"]
    assert model.p.item() == pytest.approx(plain.p.item(), abs=1e-6)
    assert list(session.schedules) == ["optimizer"]


def test_by_the_optimizers_name_each_with_its_own_steps():
    model = nn.ModuleDict({"a": One(), "b": One()})
    opts = {k: torch.optim.SGD(model[k].parameters(), lr=1.0) for k in "ab"}
    schedule = {"b": schedulers.StepLR(opts["b"], 1, gamma=0.5)}
    session = prepare(model, opts, "fp32", schedule=schedule)
    session.step(model["a"](), optimizer="a")
    assert opts["b"].param_groups[0]["lr"] == 1.0
    session.step(model["b"](), optimizer="b")
    session.step(model["a"]() + model["b"]())
    session.step(model["a"]())
    assert opts["b"].param_groups[0]["lr"] == 0.25


def test_a_single_schedule_finds_its_optimizer():
    model = nn.ModuleDict({"a": One(), "b": One()})
    opts = {k: torch.optim.SGD(model[k].parameters(), lr=1.0) for k in "ab"}
    session = prepare(model, opts, "fp32", schedule=schedulers.StepLR(opts["b"], 1))
    assert list(session.schedules) == ["b"]


def test_what_the_session_cannot_step_is_refused_with_a_reason():
    model = One()
    optimizer, other = (torch.optim.SGD(model.parameters(), lr=1.0) for _ in range(2))
    for schedule, error, message in (
        (schedulers.ReduceLROnPlateau(optimizer), ValueError, r"ReduceLROnPlateau follows a metric.*schedule\.step"),
        (schedulers.StepLR(other, 1), ValueError, "StepLR given for optimizer 'optimizer' drives another optimizer"),
        ({"x": schedulers.StepLR(optimizer, 1)}, ValueError, "optimizer 'x', expected one of: optimizer"),
        (0.1, TypeError, r"schedule is a float; expected a scheduler of torch\.optim\.lr_scheduler"),
    ):
        with pytest.raises(error, match=message):
            prepare(model, optimizer, "fp32", schedule=schedule)
    with pytest.raises(TypeError, match="unexpected keyword argument 'scheduler'; further ones are schedule"):
        prepare(model, optimizer, "fp32", scheduler=None)


def test_a_users_own_schedule_beside_a_fused_optimizer_gives_no_warning():
    model = One()
    optimizer = mixprec.optim.AdamW(model.parameters(), lr=1.0)
    schedule = schedulers.StepLR(optimizer, 1, gamma=0.5)
    session = prepare(model, optimizer, "fp32")
    if session.step(model()).applied:
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("recipe", ["fp32", "bf16-split", "bf16-true"])
def test_an_average_advances_with_applied_steps_only(recipe):
    model = One()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=2.0**-10), recipe)
    average = session.average(0.5)
    iterate(session)
    assert average.updates == 3
    weights = [1.0 - n * 2.0**-10 * (recipe != "bf16-true") for n in range(4)]
    expected = weights[0]
    for weight in weights[1:]:
        expected = 0.5 * expected + 0.5 * weight
    assert average.state_dict()["averages"]["p"].item() == pytest.approx(expected, abs=1e-7)
    with average.swapped_in():
        assert model.p.item() == pytest.approx(expected, abs=2.0**-8)
    with pytest.raises(ValueError, match="there is one named 'average' already"):
        session.average(0.9)


def test_an_average_of_one_optimizers_weights_follows_its_steps():
    model = nn.ModuleDict({"a": One(), "b": One()})
    opts = {k: torch.optim.SGD(model[k].parameters(), lr=0.5) for k in "ab"}
    session = prepare(model, opts, "fp32")
    average = session.average(0.5, optimizer="a", name="generator")
    session.step(model["b"](), optimizer="b")
    assert average.updates == 0
    session.step(model["a"](), optimizer="a")
    assert {k: v.item() for k, v in average.state_dict()["averages"].items()} == {"a.p": 0.75}
