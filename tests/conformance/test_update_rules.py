"""One step from equal state against torch's optimizers and against float64."""

import math

import pytest
import torch
from torch import Tensor

from mixprec.kernels import AdamWRule, SGDRule, Slot, StoredMoment, StoredWeight, optimizer_step

SHAPE = (37, 91)
STEPS = [(1, 1e-3, 0.01, 1e-8), (7, 3e-2, 0.1, 1e-6), (5000, 1e-4, 0.0, 1e-8)]


def fp32(value: float) -> float:
    return torch.tensor(value, dtype=torch.float64).float().item()


def adamw_rule(lr: float, decay: float, eps: float, step: int, factor: float = 1.0) -> AdamWRule:
    return AdamWRule(
        factor=fp32(factor),
        decay=fp32(1.0 - lr * decay),
        beta1=fp32(0.9),
        alpha1=fp32(1.0 - 0.9),
        beta2=fp32(0.999),
        alpha2=fp32(1.0 - 0.999),
        rate=fp32(lr / (1.0 - 0.9**step)),
        correction=fp32(1.0 / math.sqrt(1.0 - 0.999**step)),
        eps=fp32(eps),
    )


def within_4_ulp(got: Tensor, right: Tensor, before: Tensor) -> bool:
    """4 units in the last place of max(|p|, |update|)."""
    size = torch.maximum(right.abs(), (right - before).abs()).double()
    _, exponent = torch.frexp(size)
    ulp = torch.ldexp(torch.ones_like(size), exponent - 24)
    return bool(((got.double() - right.double()).abs() <= 4 * ulp).all())


@pytest.fixture
def values() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    weight, gradient, first = (torch.randn(SHAPE, generator=generator) for _ in range(3))
    second = torch.rand(SHAPE, generator=generator) * 1e-2
    return {"weight": weight, "gradient": gradient, "first": 0.1 * first, "second": second}


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("step", "lr", "decay", "eps"), STEPS)
def test_adamw_is_torchs(values, fused: bool, step: int, lr: float, decay: float, eps: float):
    param = torch.nn.Parameter(values["weight"].clone())
    param.grad = values["gradient"].clone()
    optimizer = torch.optim.AdamW([param], lr=lr, weight_decay=decay, eps=eps, fused=fused, foreach=False)
    first, second = (values["first"], values["second"]) if step > 1 else (torch.zeros(SHAPE), torch.zeros(SHAPE))
    optimizer.state[param] = {
        "step": torch.tensor(float(step - 1)),
        "exp_avg": first.clone(),
        "exp_avg_sq": second.clone(),
    }
    optimizer.step()

    weight = values["weight"].clone()
    moments = (StoredMoment("fp32", first.clone()), StoredMoment("fp32", second.clone()))
    optimizer_step([Slot(values["gradient"], StoredWeight("plain", weight), moments)], adamw_rule(lr, decay, eps, step))
    assert within_4_ulp(weight, param.detach(), values["weight"])
    for kept, name in zip(moments, ("exp_avg", "exp_avg_sq"), strict=True):
        assert torch.allclose(kept.values, optimizer.state[param][name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov", "decay"),
    [
        (0.0, 0.0, False, 0.0),
        (0.0, 0.0, False, 0.1),
        (0.9, 0.0, False, 0.1),
        (0.9, 0.3, False, 0.0),
        (0.9, 0.0, True, 0.1),
    ],
)
def test_sgd_is_torchs(values, is_first: bool, momentum: float, dampening: float, nesterov: bool, decay: float):
    param = torch.nn.Parameter(values["weight"].clone())
    param.grad = values["gradient"].clone()
    optimizer = torch.optim.SGD(
        [param], lr=0.1, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=decay, foreach=False
    )
    if momentum and not is_first:
        optimizer.state[param]["momentum_buffer"] = values["first"].clone()
    optimizer.step()

    weight = values["weight"].clone()
    moments = (StoredMoment("fp32", values["first"].clone()),) if momentum else ()
    rule = SGDRule(
        factor=1.0,
        weight_decay=fp32(decay),
        momentum=fp32(momentum),
        alpha=fp32(1.0 - dampening),
        nesterov=nesterov,
        is_first=is_first,
        lr=fp32(0.1),
    )
    optimizer_step([Slot(values["gradient"], StoredWeight("plain", weight), moments)], rule)
    assert within_4_ulp(weight, param.detach(), values["weight"])


def test_the_factor_is_unscaling_and_clipping(values):
    scaled, plain = values["weight"].clone(), values["weight"].clone()

    def moments() -> tuple[StoredMoment, StoredMoment]:
        return StoredMoment("fp32", torch.zeros(SHAPE)), StoredMoment("fp32", torch.zeros(SHAPE))

    large = Slot(values["gradient"] * 2.0**10, StoredWeight("plain", scaled), moments())
    optimizer_step([large], adamw_rule(1e-3, 0.01, 1e-8, 1, factor=2.0**-10))
    optimizer_step([Slot(values["gradient"], StoredWeight("plain", plain), moments())], adamw_rule(1e-3, 0.01, 1e-8, 1))
    assert torch.equal(scaled, plain)


def test_adamw_against_float64(values):
    rule = adamw_rule(1e-2, 0.1, 1e-8, 10)
    weight, g = values["weight"].clone(), values["gradient"].double()
    moments = (StoredMoment("fp32", values["first"].clone()), StoredMoment("fp32", values["second"].clone()))
    optimizer_step([Slot(values["gradient"], StoredWeight("plain", weight), moments)], rule)
    m = rule.beta1 * values["first"].double() + rule.alpha1 * g
    v = rule.beta2 * values["second"].double() + rule.alpha2 * g * g
    right = rule.decay * values["weight"].double() - rule.rate * m / (v.sqrt() * rule.correction + rule.eps)
    assert torch.allclose(weight.double(), right, rtol=1e-6, atol=1e-8)
