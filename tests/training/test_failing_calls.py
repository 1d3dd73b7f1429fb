"""A backward pass or a step that raises leaves nothing behind that a later step adds to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from mixprec.training import prepare


class OutOfMemory(torch.autograd.Function):
    """Raises in its backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("no memory left")


class Fragile(torch.optim.SGD):
    """Raises where it is told to, after it has updated the weights or before."""

    fails = ""

    def step(self, closure=None):
        if self.fails == "before":
            raise torch.OutOfMemoryError("no memory left")
        super().step()
        if self.fails == "after":
            raise torch.OutOfMemoryError("no memory left")


def build(recipe="bf16", dtype=torch.float32, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16), nn.Linear(16, 1)).to(dtype)
    return prepare(model, Fragile(model.parameters(), lr=0.01), recipe, **options)


def forward(session, seed, fails=False):
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
    x = session.model[1](session.model[0](x))
    # The last layers' gradients are there when the pass raises.
    return session.model[3](session.model[2](OutOfMemory.apply(x) if fails else x)).float().square().mean()


def state(session):
    found = {name: value.clone() for name, value in session.model.state_dict().items()}
    return {**found, "random": session._conversion.random_state()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def agree(session, plain, seed):
    """The next step of both is the same one."""
    results = session.step(forward(session, seed)), plain.step(forward(plain, seed))
    assert results[0].applied
    assert results[0].grad_norm == results[1].grad_norm
    assert same(state(session), state(plain))
    assert session.loss_scale_state == plain.loss_scale_state


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp16", "bf16-split", "fp4-all-the-way"])
@pytest.mark.parametrize("way", ["step", "backward"])
def test_a_backward_pass_that_raises_leaves_nothing(recipe, way):
    session, plain = build(recipe), build(recipe)
    before = state(session)
    with pytest.raises(torch.OutOfMemoryError):
        getattr(session, way)(forward(session, 0, fails=True))
    assert same(state(session), before)
    assert all(p.grad is None for p in session.model.parameters())
    (event,) = [e for e in session.events if e.name == "backward failed"]
    assert "raised OutOfMemoryError: its gradients are cleared" in event.message
    agree(session, plain, 1)


def test_a_micro_batch_that_raises_takes_the_earlier_ones_along():
    session, plain = build(), build()
    session.backward(forward(session, 0))
    session.backward(forward(session, 1))
    with pytest.raises(torch.OutOfMemoryError):
        session.backward(forward(session, 2, fails=True))
    assert "so are those of 2 earlier losses" in session.events[-1].message
    result = session.step()  # the failing one was the last of its step
    assert not result.applied
    assert "nothing to do" in result.reason
    agree(session, plain, 3)


def test_another_optimizers_gradients_stay():
    torch.manual_seed(0)
    parts = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
    optimizers = {name: torch.optim.SGD(part.parameters(), lr=0.1) for name, part in parts.items()}
    session = prepare(parts, optimizers, "fp16")
    x = torch.randn(8, 4)
    session.backward(parts["a"](x).square().mean(), optimizer="a")
    want = parts["a"].weight.grad.clone()
    with pytest.raises(torch.OutOfMemoryError):
        session.backward(OutOfMemory.apply(parts["b"](x) + parts["a"](x)).square().mean(), optimizer="b", name="new")
    assert torch.equal(parts["a"].weight.grad, want)
    assert list(session.loss_scales) == ["loss"]
    assert session.step(optimizer="a").applied


@pytest.mark.parametrize("recipe", ["fp32", "fp16", "bf16-split", "bf16-kahan"])
@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_an_optimizer_that_raises_leaves_nothing(recipe, clip_norm):
    session, plain = build(recipe, clip_norm=clip_norm), build(recipe, clip_norm=clip_norm)
    before = state(session)
    session.optimizer.fails = "before"
    with pytest.raises(torch.OutOfMemoryError):
        session.step(forward(session, 0))
    assert same(state(session), before)
    assert session.applied == 0
    assert "what the optimizer had changed by then stays" in session.events[-1].message
    assert not session.step().applied
    session.optimizer.fails = ""
    agree(session, plain, 1)


def test_what_an_optimizer_has_changed_before_it_raises_stays_and_the_next_gradients_are_clean():
    session, plain = build("mxfp8"), build("mxfp8")
    session.optimizer.fails = "after"
    with pytest.raises(torch.OutOfMemoryError):
        session.step(forward(session, 0))
    plain.step(forward(plain, 0))
    buffers = dict(session.model.named_buffers())
    plain.model.load_state_dict(dict(plain.model.state_dict()) | buffers)
    session.optimizer.fails = ""
    assert session.step(forward(session, 1)).grad_norm == plain.step(forward(plain, 1)).grad_norm


def test_gradients_that_are_refused_are_not_added_to():
    session, plain = build("fp16"), build("fp16")
    forward(session, 0).backward()
    with pytest.raises(ValueError, match="did not come through"):
        session.step()
    agree(session, plain, 1)


def test_a_step_while_an_average_is_in_the_model_is_refused_before_anything_changes():
    torch.manual_seed(0)
    model = nn.Linear(16, 16).bfloat16()
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1), "bf16-split")
    average = session.average(0.5)
    x = torch.randn(8, 16).bfloat16()
    for _ in range(3):
        session.step(model(x).float().square().mean())
    values = {name: session.full_weight(name) for name, _ in model.named_parameters()}
    (state,) = {int(s["step"]) for s in session.optimizer.state.values()}
    with average.swapped_in():
        loss = model(x).float().square().mean()
        with pytest.raises(RuntimeError, match=r"step: the average 'average' is in the model in place of the weights"):
            session.step(loss)
        for call in (session.save, lambda: session.full_weight("weight")):
            with pytest.raises(RuntimeError, match="'average' is in the model"):
                call()
        assert math.isfinite(loss.item())
    assert {int(s["step"]) for s in session.optimizer.state.values()} == {state}
    assert all(torch.equal(session.full_weight(name), value) for name, value in values.items())
    assert session.step(model(x).float().square().mean()).applied
    assert average.updates == 4
