"""Losses that only a backward pass shows: ``backward`` called inside of what is run, infinite losses, its arguments."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mixprec
from mixprec.monitor import locate

INFINITY = torch.tensor(torch.inf)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


def masked(out, rows):
    mask = torch.zeros_like(out, dtype=torch.bool)
    mask[0, slice(None) if rows else 0] = True
    return out.masked_fill(mask, -torch.inf)


#: Losses that are not finite, most with finite gradients: operation and cause.
EXPRESSIONS = {
    "number": (lambda y: y.mean() + float("inf"), "add", "infinity written by the program"),
    "tensor": (lambda y: y.mean() + INFINITY, "add", "infinity written by the program"),
    "product": (lambda y: y.mean() * float("inf"), "mul", "infinity written by the program"),
    "row": (lambda y: masked(y, True).logsumexp(-1).sum(), "logsumexp", "-inf row"),
    "target": (
        lambda y: F.cross_entropy(masked(y, False), torch.zeros(len(y), dtype=torch.long)),
        "nll_loss_forward",
        "infinity written by the program",
    ),
    "log": (lambda y: y.mean() + torch.zeros(()).log(), "log", "log or division of a zero"),
    "domain": (lambda y: (y - 100.0).log().sum(), "log", "outside of the function's domain"),
    "overflow": (lambda y: y.mean() + torch.tensor(3e38) * 10, "mul", "activation overflow"),
}


@pytest.mark.parametrize("way", ["returned", "not returned", "session", "session, not returned"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_loss_that_is_not_finite_is_told_with_its_own_operation(expression, way):
    compute, operation, cause = EXPRESSIONS[expression]
    model, x = net(), torch.randn(4, 8)

    def run():
        loss = compute(model(x))
        loss.backward()
        return loss

    if way.startswith("session"):
        session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16")
        fault = session.locate((lambda: compute(model(x))) if way == "session" else (lambda: run() and None))
        session.restore()
    else:
        fault = locate(model, run if way == "returned" else lambda: run() and None)
    assert (fault.site, fault.operation, fault.direction) == ("<loss>", operation, "forward")
    assert fault.cause.name == cause


def test_a_bad_batch_and_a_backward_pass_inside():
    model = net()
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16")
    x = torch.randn(4, 8)
    assert session.locate(lambda: model(x).sum().backward()) is None
    x[0, 0] = torch.nan
    fault = session.locate(lambda: model(x).sum().backward())
    assert (fault.site, fault.cause.name) == ("<input>", "bad input data")
    session.restore()


def test_what_is_no_function_is_refused():
    model = net()
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    with pytest.raises(TypeError, match="compute_loss is a NoneType, expected a function"):
        session.locate(None)
    with pytest.raises(TypeError, match="compute_loss is a Tensor, expected a function"):
        session.locate(model(torch.ones(1, 8)).sum())
    with pytest.raises(TypeError, match="has given None and run no backward pass"):
        session.locate(lambda: None)
    with pytest.raises(ValueError, match=r"step: session\.locate runs a step that leaves no trace"):
        session.locate(lambda: session.step(model(torch.ones(1, 8)).sum()))
    assert session.step(model(torch.ones(1, 8)).sum()).applied
    session.restore()
    with pytest.raises(TypeError, match="run_step is a NoneType"):
        locate(model, None)
    with pytest.raises(TypeError, match=r"the order is locate\(model, run_step\)"):
        locate(lambda: None, model)
    with pytest.raises(TypeError, match="scale is a str"):
        locate(model, lambda: None, scale="x")
    with pytest.raises(ValueError, match="nothing to look at"):
        locate(model, lambda: None)


class Exploding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 1e30 * 1e30


class Explode(nn.Module):
    def forward(self, x):
        return Exploding.apply(x)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (None, "it is not known what the loss is multiplied by"),
        (1.0, "the loss scale is 1"),
        (1024.0, "not the loss scale: it stays"),
    ],
)
def test_a_scale_that_was_not_told_is_not_excluded(scale, words):
    model = nn.Sequential(nn.Linear(4, 4), Explode())
    fault = locate(model, lambda: model(torch.ones(2, 4)).sum().backward(), scale=scale)
    assert fault.cause.name == "gradient overflow"
    assert words in fault.detail
    assert ("not the loss scale" in str(fault.finding())) == (scale == 1024.0)


@pytest.mark.parametrize(("scale", "name"), [(None, "gradient overflow"), (3 * 2.0**18, "loss scale too high")])
def test_a_scale_that_is_at_fault_is_told_or_asked_for(scale, name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh()).half()
    x = torch.ones(2, 4, dtype=torch.float16)

    fault = locate(model, lambda: (model(x).float().mean() * 3 * 2.0**18).backward(), scale=scale)
    assert fault.cause.name == name
    assert "not the loss scale" not in str(fault.finding())
    assert scale is not None or "give scale=" in fault.detail
