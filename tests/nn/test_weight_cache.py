"""Weights are cast once for as long as they stay what they are: frozen ones for good, others between two updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

CASTS = ["mxfp8 rceil", "nvfp4-2d", "e4m3[tensor]", "e4m3[row]", "e4m3[128x128:fp32]", "mxfp4 ht32"]
REFUSED = {"e4m3[row]", "e4m3[128x128:fp32]"}  # as inputs of a convolution
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(64, 48), (5, 64)),
    "conv": (lambda: nn.Conv1d(64, 48, 3, padding=1), (2, 64, 5)),
}


def low(cast: str) -> Recipe:
    return Recipe(name="low", rules=(Rule(precision=LayerPrecision.uniform(cast)),))


def weight_casts(counter: Any, weight: Tensor) -> int:
    """Casts of anything that has as many elements as the weight."""
    return sum(n for shape, n in counter.shapes.items() if torch.Size(shape).numel() == weight.numel())


def results(model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    y = model(leaf)
    y.square().sum().backward()
    return [y.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize(
    ("kind", "cast"), [("linear", c) for c in CASTS] + [("conv", c) for c in CASTS if c not in REFUSED]
)
def test_a_frozen_weight_is_cast_once_and_gets_no_gradient(kind: str, cast: str, count_casts: Any) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[kind]
    layer = make()
    layer.weight.requires_grad_(False)
    model, x = nn.Sequential(layer), torch.randn(shape)
    convert(model, low(cast))
    with count_casts() as counter:
        first = results(model, x)
    assert weight_casts(counter, layer.weight) == 2, "for fprop and for dgrad"
    with count_casts() as counter:
        second = results(model, x)
    assert weight_casts(counter, layer.weight) <= 4, "the codes are made at the second use"
    with count_casts() as counter:
        third = results(model, x)
    assert weight_casts(counter, layer.weight) == 0
    assert layer.weight.grad is None
    for again in (second, third):
        assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


@pytest.mark.parametrize("kind", LAYERS)
def test_micro_batches_share_the_codes_until_the_update(kind: str, count_casts: Any) -> None:
    torch.manual_seed(0)
    make, shape = LAYERS[kind]
    layer = make()
    model = nn.Sequential(layer)
    conversion = convert(model, low("mxfp8 rceil"))
    conversion.begin_step()
    batches = [torch.randn(shape) for _ in range(4)]
    counts = []
    for x in batches:
        with count_casts() as counter:
            results(model, x)
        counts.append(weight_casts(counter, layer.weight))
    assert counts[2:] == [0, 0]
    with torch.no_grad():
        layer.weight.data.mul_(2.0)  # as a fused optimizer does: no version changes
    conversion.commit_step()
    with count_casts() as counter:
        got = results(model, batches[0])
    assert weight_casts(counter, layer.weight) == 2
    twin = nn.Sequential(make())
    twin.load_state_dict(model.state_dict())
    convert(twin, low("mxfp8 rceil"))
    assert all(torch.equal(a, b) for a, b in zip(got, results(twin, batches[0]), strict=True))


def test_without_a_session_a_trained_weight_is_cast_each_time(count_casts: Any) -> None:
    layer = nn.Linear(64, 48)
    convert(model := nn.Sequential(layer), low("mxfp8 rceil"))
    x = torch.randn(5, 64)
    for _ in range(3):
        with count_casts() as counter:
            results(model, x)
        assert weight_casts(counter, layer.weight) == 2


def test_random_casts_are_never_kept(count_casts: Any) -> None:
    layer = nn.Linear(64, 48).requires_grad_(False)
    convert(model := nn.Sequential(layer), low("mxfp4 sr"))
    x = torch.randn(5, 64)
    outputs = []
    for _ in range(3):
        with count_casts() as counter:
            outputs.append(results(model, x)[0])
        assert weight_casts(counter, layer.weight) == 2
    assert not torch.equal(outputs[0], outputs[1])


def test_a_new_parameter_in_the_same_place_is_another() -> None:
    layer = nn.Linear(32, 32, bias=False).requires_grad_(False)
    convert(model := nn.Sequential(layer), low("mxfp8 rceil"))
    x = torch.randn(4, 32)
    with torch.no_grad():
        for _ in range(3):
            first = model(x)
        for factor in (2.0, 4.0, 8.0):
            data = layer.weight.detach() * 2
            del layer.weight
            layer.weight = nn.Parameter(data, requires_grad=False)
            for _ in range(3):
                assert torch.equal(model(x), first * factor)


def test_an_evaluation_in_inference_mode_leaves_codes_that_training_can_read() -> None:
    layer = nn.Linear(32, 32).requires_grad_(False)
    convert(model := nn.Sequential(layer), low("mxfp8 rceil"))
    x = torch.randn(4, 32)
    want = results(model, x)
    with torch.inference_mode():
        for _ in range(3):
            model(x)
    assert all(torch.equal(a, b) for a, b in zip(results(model, x), want, strict=True))


def test_an_update_lets_the_codes_of_trained_weights_go_and_keeps_those_of_frozen_ones() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    model[0].weight.requires_grad_(False)
    conversion = convert(model, low("mxfp8 rceil"))
    conversion.begin_step()
    x = torch.randn(5, 64)
    for _ in range(3):
        results(model, x)
    cache = conversion.state.weights
    both = len(cache.tensors)
    conversion.commit_step()
    assert 2 * len(cache.tensors) == both > 0
    frozen = [t.data_ptr() for t in cache.tensors]
    for _ in range(3):
        results(model, x)
    assert len(cache.tensors) == both
    assert set(frozen) <= {t.data_ptr() for t in cache.tensors}
