"""A check leaves everything as it was: training goes on bit for bit as if it had never been."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.monitor import Monitoring, check_step
from mixprec.records import FindingRecord, StatisticsRecord, UpdateRecord, read_records
from mixprec.training import Session, prepare


class Everything(nn.Module):
    """Dropout, batch norm, a buffer that is reassigned, a counter, and a part that is recomputed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(32, 32), nn.BatchNorm1d(32)
        self.drop, self.last = nn.Dropout(0.2), nn.Linear(32, 32)
        self.register_buffer("mean", torch.zeros(32))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen = x.shape
        random.random(), np.random.rand()
        y = self.drop(self.norm(self.first(x)))
        self.mean = 0.9 * self.mean + 0.1 * y.detach().float().mean(0)
        return checkpoint(self.last, y, use_reentrant=False)


def batch(i: int) -> Tensor:
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(i))


def loss(model: nn.Module, i: int) -> Tensor:
    return model(batch(i)).square().mean()


def session(recipe: str) -> Session:
    torch.manual_seed(3)
    model = Everything()
    return prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), recipe, clip_norm=1.0, seed=5)


def train(recipe: str, *, checks: bool) -> tuple[dict[str, Tensor], list[object]]:
    s = session(recipe)
    random.seed(1), np.random.seed(1), torch.manual_seed(7)
    told: list[object] = []
    for i in range(3):
        if checks:
            s.check(lambda: loss(s.model, 99))
        first = loss(s.model, 2 * i)
        told.append(first.item())
        s.backward(first)
        if checks:
            s.check(lambda: loss(s.model, 98))
        result = s.step(loss(s.model, 2 * i + 1))
        told += [result.grad_norm, result.loss_scale, result.applied]
    told += [torch.rand(()).item(), random.random(), np.random.rand(), s.model.calls, s.state_dict()["applied"]]
    told += [row.flops for row in s.audit().rows]
    return {name: t.clone() for name, t in s.model.state_dict().items()}, told


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16", "fp8-delayed", "nvfp4", "bf16-sr"])
def test_training_goes_on_as_if_there_had_been_no_check(recipe: str) -> None:
    weights, told = train(recipe, checks=False)
    checked, told_checked = train(recipe, checks=True)
    assert told_checked == told
    assert all(torch.equal(checked[name], weights[name]) for name in weights)


def test_what_modules_and_parameters_hold_are_the_same_objects_as_before() -> None:
    s = session("bf16")
    loss(s.model, 0).backward()
    held = {name: (p, p.grad, p._version) for name, p in s.model.named_parameters()}
    buffers = {name: (b, b._version) for name, b in s.model.named_buffers()}
    gradients = {name: p.grad.clone() for name, p in s.model.named_parameters()}
    random_state, attributes = s._conversion.random_state(), set(vars(s.model))
    s.check(lambda: loss(s.model, 1))
    for name, p in s.model.named_parameters():
        assert (p, p._version) == (held[name][0], held[name][2])
        assert p.grad is held[name][1]
        assert torch.equal(p.grad, gradients[name])
    for name, buffer in s.model.named_buffers():
        assert (buffer, buffer._version) == buffers[name]
    assert torch.equal(s._conversion.random_state(), random_state)
    assert set(vars(s.model)) == attributes
    assert all(not m._forward_pre_hooks or m.training for m in s.model.modules())
    assert s.events == session("bf16").events


def test_a_skipped_step_after_a_check_gives_buffers_back_as_ever() -> None:
    s = session("fp16")
    s.check(lambda: loss(s.model, 0))
    before = s.model.norm.running_var.clone()
    result = s.step(loss(s.model, 1) * float("inf"))
    assert not result.applied
    assert torch.equal(s.model.norm.running_var, before)


def test_a_forward_pass_that_writes_to_its_weights_is_undone() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self) -> Tensor:
            with torch.no_grad():
                self.weight.mul_(2.0)
            return self.weight.sum()

    model = Writes()
    assert len(check_step(model, model)) == 0
    assert model.weight.tolist() == [1.0] * 4


def test_what_a_forward_pass_writes_to_a_plain_attribute_is_undone_and_told() -> None:
    class Averages(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.layer, self.last = nn.Linear(4, 4), torch.zeros(4, dtype=torch.bfloat16)
            self.average, self.count = torch.ones(4, dtype=dtype), torch.full((), 7.0, dtype=dtype)

        def forward(self) -> Tensor:
            h = self.layer(torch.ones(4))
            with torch.no_grad():
                self.average.mul_(0.5).add_(h.detach())
                self.count += 1
                self.last = h.detach().bfloat16()  # held, not added up
            return h.sum()

    for dtype, told in ((torch.bfloat16, ["16-bit buffer that accumulates"]), (torch.float32, [])):
        model = Averages(dtype)
        held = model.average, model.count, model.last
        found = check_step(model, model)
        assert [f.name for f in found] == told
        assert not told or {f.site for f in found} <= {"average", "count"}
        assert (model.average.tolist(), float(model.count), model.last.tolist()) == ([1.0] * 4, 7.0, [0.0] * 4)
        assert all(a is b for a, b in zip(held, (model.average, model.count, model.last), strict=True))


def test_an_optimizer_that_steps_in_the_backward_pass_does_not() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().clone()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    check_step(model, lambda: model(torch.ones(1, 2)).sum(), optimizer)
    assert torch.equal(model.weight, before)
    model(torch.ones(1, 2)).sum().backward()
    assert not torch.equal(model.weight, before)  # the hooks are back


def test_a_step_that_raises_is_the_callers_and_leaves_all_as_it_was() -> None:
    model = Everything()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    state = torch.get_rng_state()

    def step() -> Tensor:
        model(batch(0))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        check_step(model, step)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.calls == 0


@pytest.mark.parametrize("recipe", ["bf16", "nvfp4"])
def test_those_who_watch_a_session_see_no_check(tmp_path: Path, recipe: str) -> None:
    def run(folder: Path, *, checks: bool) -> list[object]:
        torch.manual_seed(3)
        model = Everything()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        s = prepare(model, optimizer, recipe, run=folder, monitor=Monitoring(every=1))
        torch.manual_seed(7)
        for i in range(3):
            if checks:
                s.check(lambda: loss(s.model, 99))
            s.step(loss(s.model, i))
        watched = (StatisticsRecord, UpdateRecord, FindingRecord)
        return [record for record in read_records(folder / "records.jsonl") if isinstance(record, watched)]

    unchecked, checked = run(tmp_path / "a", checks=False), run(tmp_path / "b", checks=True)
    assert len(unchecked) > 10
    assert checked == unchecked
