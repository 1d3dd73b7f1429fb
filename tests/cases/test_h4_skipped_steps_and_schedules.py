"""A schedule that the session drives, or that follows ``result.applied``, counts only applied steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import mixprec.optim
from mixprec.specs import LossScale
from mixprec.training import Session, StepResult, prepare

SCALE = LossScale(kind="dynamic", initial=4.0, interval=2000)


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(()))

    def forward(self) -> Tensor:
        return self.p


def iterate(
    session: Session, steps: int, schedule: torch.optim.lr_scheduler.LRScheduler | None = None
) -> list[StepResult]:
    results = []
    for i in range(steps):
        loss = session.model() * (float("inf") if i in (1, 2) else 1.0)
        results.append(session.step(loss))
        if schedule is not None and results[-1].applied:
            schedule.step()
    return results


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16"])
def test_the_schedule_counts_applied_steps(recipe: str) -> None:
    model = One()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    session = prepare(model, optimizer, recipe, loss_scale=SCALE)
    results = iterate(session, 5, schedule)
    assert [r.applied for r in results] == [True, False, False, True, True]
    assert optimizer.param_groups[0]["lr"] == 0.125
    assert [r.loss_scale for r in results] == [4.0, 2.0, 1.0, 1.0, 1.0]
    assert (session.applied, session.skipped) == (3, 2)
    assert model.p.item() == 1.0 - 1.0 - 0.5 - 0.25


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16", "bf16-split"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, mixprec.optim.SGD])
def test_a_schedule_that_the_session_drives(recipe: str, kind: type[torch.optim.Optimizer]) -> None:
    model = One()
    optimizer = kind(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    session = prepare(model, optimizer, recipe, loss_scale=SCALE, schedule=schedule)
    results = iterate(session, 5)
    assert [r.applied for r in results] == [True, False, False, True, True]
    assert optimizer.param_groups[0]["lr"] == 0.125
    assert [r.loss_scale for r in results] == [4.0, 2.0, 1.0, 1.0, 1.0]
    assert model.p.item() == 1.0 - 1.0 - 0.5 - 0.25


@pytest.mark.parametrize("driven", [True, False])
def test_a_first_step_that_is_skipped_moves_no_schedule_and_warns_of_nothing(driven: bool) -> None:
    model = One()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    session = prepare(model, optimizer, "fp16", loss_scale=SCALE, schedule=schedule if driven else None)
    for factor in (float("nan"), float("inf"), 1.0):
        if session.step(model() * factor).applied and not driven:
            schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_first_step_that_is_skipped_gives_no_warning_either() -> None:
    model = One()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    session = prepare(model, optimizer, "fp16", loss_scale=SCALE)
    assert not session.step(model() * float("nan")).applied
    if session.step(model()).applied:
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("options", [{"fused": True}, {"fused": False}, {"foreach": True}, {"mixprec": True}])
def test_the_optimizers_own_counter_counts_applied_steps(options: dict[str, bool]) -> None:
    model = One()
    kind = mixprec.optim.AdamW if options.pop("mixprec", False) else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.0, **options)
    results = iterate(prepare(model, optimizer, "fp32", loss_scale=SCALE), 4)
    assert [r.applied for r in results] == [True, False, False, True]
    assert optimizer.state[model.p]["step"] == 2
    assert model.p.item() == pytest.approx(0.8, abs=1e-6)
    assert [bool(r.reason) for r in results] == [False, True, True, False]


def test_without_a_loss_scale_bad_steps_are_skipped_too() -> None:
    model = One()
    results = iterate(prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16"), 4)
    assert [r.applied for r in results] == [True, False, False, True]
    assert results[1].reason.startswith("skipped: the loss is inf; inf in gradient of p")
