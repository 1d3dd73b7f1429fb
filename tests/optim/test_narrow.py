"""A model's parameters in 16 bits, and back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.optim import keep_weights, narrow_parameters


def model_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2).double())


def test_fp32_parameters_become_16_bits_in_place_but_those_with_statistics() -> None:
    model = model_of()
    before = list(model.parameters())
    narrowed = narrow_parameters(model, torch.bfloat16)
    assert narrowed.names == ("0.weight", "0.bias")
    assert all(p is q for p, q in zip(model.parameters(), before, strict=True))
    assert [p.dtype for p in model.parameters()] == [torch.bfloat16] * 2 + [torch.float32] * 2 + [torch.float64] * 2
    assert model[1].running_mean.dtype == torch.float32
    model[0](torch.ones(3, 4, dtype=torch.bfloat16)).sum().backward()
    assert model[0].weight.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["master", "split"])
def test_masters_and_split_weights_begin_as_the_fp32_model_and_come_back(kind: str) -> None:
    model = nn.Linear(5, 3)
    exact = [p.detach().clone() for p in model.parameters()]
    narrowed = narrow_parameters(model, torch.bfloat16)
    kept = keep_weights(torch.optim.SGD(model.parameters(), lr=0.1), kind)
    narrowed.start(kept)
    for p, value in zip(model.parameters(), exact, strict=True):
        assert torch.equal(kept.full_weight(p), value)
        assert (p - value).abs().max() <= 2.0**-8 * value.abs().max()
        p.grad = torch.ones_like(p)
    kept.apply(1.0)
    narrowed.restore(kept)
    for p, value in zip(model.parameters(), exact, strict=True):
        assert torch.equal(p, value - 0.1 * torch.ones(()))
        assert p.dtype == torch.float32


def test_without_a_keeping_unchanged_weights_come_back_exactly_and_trained_ones_as_they_are() -> None:
    model = nn.Linear(5, 3)
    exact = model.weight.detach().clone()
    narrowed = narrow_parameters(model, torch.bfloat16)
    with torch.no_grad():
        model.bias.fill_(0.5)
    narrowed.restore()
    assert torch.equal(model.weight, exact)
    assert model.bias.tolist() == [0.5] * 3


def test_gradients_go_along() -> None:
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    narrowed = narrow_parameters(model, torch.float16)
    assert model.weight.grad.dtype == torch.float16
    narrowed.restore()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_what_does_not_fit_is_refused_and_nothing_changed() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.bias.fill_(1e5)
    with pytest.raises(ValueError, match=r"bias has values above 65504, the largest of torch.float16"):
        narrow_parameters(model, torch.float16)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    with pytest.raises(ValueError, match=r"expected torch.bfloat16 or torch.float16"):
        narrow_parameters(model, torch.float64)
    model.weight.device_mesh = "a mesh"
    with pytest.raises(ValueError, match=r"narrow_parameters \(weight\) does not take sharded"):
        narrow_parameters(model, torch.bfloat16)


def test_a_model_without_values_is_refused() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"narrow_parameters: 0.weight is on the meta device.*to_empty"):
        narrow_parameters(model, torch.bfloat16)
