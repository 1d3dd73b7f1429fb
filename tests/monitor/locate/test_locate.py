"""What is told of single faults: inside the loss, hidden ones, those of the cases from users."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mixprec
from mixprec.monitor import locate
from mixprec.monitor.locate import causes
from mixprec.specs import LayerPrecision, Recipe, Rule, parse_cast


class Masked(nn.Module):
    """Scores plus an additive mask, a softmax over them."""

    def forward(self, scores, mask):
        return torch.softmax(scores + mask, -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2, 2))
        self.attend = Masked()

    def forward(self, scores, mask):
        return self.attend(scores * self.gain.to(scores.dtype), mask)


def test_h1_saturated_probability_is_told_as_a_fault_of_the_loss():
    model = nn.Sequential(nn.Linear(1, 1), nn.Sigmoid())
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.zero_()

    def run():
        with torch.autocast("cpu", dtype=torch.float16):
            p = model(torch.tensor([[10.0]]))
            loss = F.binary_cross_entropy(p, torch.zeros_like(p))
        loss.backward()
        return loss

    fault = locate(model, run)
    # 1e12, the loss's gradient, is cast to what the sigmoid gave: its output's gradient, in fp16.
    assert (fault.site, fault.operand, fault.limit) == ("1", "grad_output", 65504.0)
    assert fault.cause.name == "log or division of a zero"
    assert fault.direction == "backward"


def test_h2_mask_minimum_plus_negative_score_is_told_as_the_sum_that_makes_a_row_of_minus_inf():
    lowest = torch.finfo(torch.float16).min
    scores = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]], dtype=torch.float16)
    mask = torch.tensor([[lowest, lowest], [lowest, 0.0]], dtype=torch.float16)
    model = Attention()
    fault = locate(model, lambda: model(scores, mask).float().sum().backward())
    assert (fault.site, fault.operation, fault.direction) == ("attend", "add", "forward")
    assert fault.cause.name == "-inf row"
    assert (fault.kind, fault.dtype, fault.limit) == ("-inf", "fp16", 65504.0)


def test_h2_a_mask_that_leaves_a_place_in_each_row_is_no_fault():
    model = Attention()
    mask = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    assert locate(model, lambda: model(torch.zeros(2, 2), mask).square().sum().backward()) is None


def test_h9_a_table_that_is_rounded_is_finite_and_gets_no_site():
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(()))
            self.register_buffer("inv_freq", 1.0 / 1e4 ** (torch.arange(0, 8, 2) / 8))

        def forward(self, n):
            return self.gain * torch.cos(torch.arange(n).type_as(self.inv_freq)[:, None] * self.inv_freq)

    model = Rotary().bfloat16()
    assert locate(model, lambda: model(4096).float().sum().backward()) is None


def test_a_finite_forward_with_a_broken_gradient():
    class SafeLog(nn.Module):
        def forward(self, x):
            return torch.where(x > 0, torch.log(x), 0.0)

    model = nn.Sequential(nn.Linear(2, 2), SafeLog())
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[0].bias.zero_()
    x = torch.tensor([[1.0, 0.0]])
    assert model(x).isfinite().all()
    fault = locate(model, lambda: model(x).sum().backward())
    assert (fault.site, fault.direction) == ("1", "backward")
    assert fault.cause.name == "log or division of a zero"


def test_the_derivative_of_a_root_at_zero():
    class Length(nn.Module):
        def forward(self, x):
            return x.square().sum(-1).sqrt()

    model = nn.Sequential(nn.Linear(2, 2, bias=False), Length())
    fault = locate(model, lambda: model(torch.zeros(1, 2)).sum().backward())
    assert (fault.site, fault.operand, fault.direction) == ("1", "grad_output", "backward")
    assert fault.cause.name == "derivative at zero"


def test_an_infinity_that_a_saturating_cast_launders_is_told():
    class Overflowing(nn.Module):
        def forward(self, x):
            return x + x.detach() * 1e30 * 1e30

    model = nn.Sequential(nn.Linear(8, 8), Overflowing(), nn.Linear(8, 8))
    cast = parse_cast("e4m3")
    precision = LayerPrecision(fprop_input=cast, fprop_weight=cast, wgrad_input=cast)
    conversion = mixprec.convert(model, Recipe(name="saturating", rules=(Rule(match="2", precision=precision),)))
    results = []

    def run():
        results.append(model(torch.ones(4, 8)))
        results[-1].sum().backward()

    fault = locate(model, run)
    assert results[0].isfinite().all()
    assert fault.cause.name == "infinity laundered by a saturating cast"
    assert fault.site == "1"
    assert "2 (input)" in fault.detail
    conversion.restore()


def test_a_log_inside_the_loss():
    model = nn.Linear(2, 2)
    fault = locate(model, lambda: (model(torch.ones(1, 2)) * 0.0).log().sum().backward())
    assert fault.site == "<loss>"
    assert fault.cause.name == "log or division of a zero"


def test_run_step_must_not_update_weights():
    model = nn.Linear(2, 2)

    def run():
        model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            model.weight.add_(1.0)

    with pytest.raises(ValueError, match="changed parameter weight"):
        locate(model, run)


def test_it_leaves_no_trace_when_run_step_raises():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model(torch.randn(4, 2)).sum().backward()
    gradient, mean = model[0].weight.grad, model[1].running_mean.clone()
    values, random = gradient.clone(), torch.get_rng_state()

    def run():
        model(torch.randn(4, 2)).sum().backward()
        raise KeyError("of the caller")

    with pytest.raises(KeyError):
        locate(model, run)
    assert model[0].weight.grad is gradient
    assert torch.equal(gradient, values)
    assert torch.equal(model[1].running_mean, mean)
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def begin_at_loss(loss: Tensor) -> None:
    loss.backward()


def begin_in_autograd(loss: Tensor) -> None:
    torch.autograd.backward(loss)


def begin_at_two_losses(loss: Tensor) -> None:
    torch.autograd.backward([loss, 2.0 * loss], [torch.ones(()), None])


def begin_at_an_edge(loss: Tensor) -> None:
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(loss))


BEGINNINGS = [begin_at_loss, begin_in_autograd, begin_at_two_losses]
SCALE = 2.0**17


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_scale_that_overflows_between_loss_and_output_is_blamed(begin: Callable[[Tensor], None]):
    model = nn.Linear(4, 2).half()
    x = torch.ones(3, 4).half()

    def run() -> None:
        begin(model(x).float().sum() * SCALE)  # its gradient is SCALE itself, cast to fp16

    fault = locate(model, run, scale=SCALE)
    assert fault is not None
    assert fault.cause is causes.LOSS_SCALE
    assert model.weight.grad is None


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_an_overflow_of_the_loss_itself_is_no_scales(begin: Callable[[Tensor], None]):
    model = nn.Linear(4, 2).half()
    x = torch.ones(3, 4).half()

    def run() -> None:
        begin((model(x).float() * 1e6).sum() * SCALE)

    fault = locate(model, run, scale=SCALE)
    assert fault is not None
    assert fault.cause is causes.GRADIENT_OVERFLOW
    assert "not the loss scale" in fault.detail


def test_where_no_smaller_loss_can_be_tried_the_scale_is_not_excluded():
    model = nn.Linear(4, 2).half()
    x = torch.ones(3, 4).half()
    fault = locate(model, lambda: begin_at_an_edge(model(x).float().sum() * SCALE), scale=SCALE)
    assert fault is not None
    assert fault.cause is causes.GRADIENT_OVERFLOW
    assert "is not known" in fault.detail


@pytest.mark.parametrize(("factor", "cause"), [(1024.0, causes.LOSS_SCALE), (1.0, None)])
def test_inside_the_model_smaller_gradients_of_outputs_tell_enough(factor, cause):
    class Times(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.inner, self.factor = nn.Linear(4, 2).half(), factor

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * self.factor

    model, x = Times(factor), torch.ones(3, 4).half()
    fault = locate(model, lambda: begin_at_an_edge(model(x).float().sum() * 2.0**10), scale=2.0**10)
    assert (None if fault is None else fault.cause) is cause
