"""What rounding does to one weight gradient: bias under nearest, noise under stochastic, and what a transform gives.

Inputs and output gradients are those of the MLPs' first linears of a character GPT after 200 steps in fp32. Only
wgrad's operands are cast; errors are relative to the exact product, as root mean squares, over both layers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from mixprec import Recipe, Workload, convert
from mixprec.specs import LayerPrecision, Rule, parse_cast, recipe

from .training import train

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loss scale")]

DRAWS = 32
STEPS = 200


@dataclass(frozen=True)
class Operands:
    """Of one layer's wgrad: the input [tokens, in] and the output's gradient [tokens, out]."""

    x: Tensor
    grad: Tensor

    def with_outlier_tokens(self) -> Operands:
        """Every 64th token's input 30 times as large."""
        x = self.x.clone()
        x[::64] *= 30
        return Operands(x, self.grad)


@functools.cache
def layers() -> tuple[Operands, ...]:
    """The operands of both layers, of one batch."""
    found: list[Operands] = []

    def watch(step: int, model: nn.Module, job: Workload) -> None:
        if step == STEPS - 1:
            found.extend(operands_of(model, job, step))

    train(recipe("fp32"), 0, steps=STEPS, watch=watch)
    return tuple(found)


def operands_of(model: nn.Module, job: Workload, step: int) -> list[Operands]:
    inputs: list[Tensor] = []
    gradients: list[Tensor] = []

    def keep(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        inputs.append(args[0].detach().flatten(0, -2))
        output.register_hook(lambda grad: gradients.insert(0, grad.flatten(0, -2).clone()))

    handles = [module.register_forward_hook(keep) for name, module in model.named_modules() if name.endswith("mlp.fc1")]
    job.loss(model, job.batches(step)).backward()
    model.zero_grad()
    for handle in handles:
        handle.remove()
    return [Operands(x, grad) for x, grad in zip(inputs, gradients, strict=True)]


def draws(operands: Operands, grad_cast: str, input_cast: str, count: int) -> list[Tensor]:
    """Weight gradients of a converted linear layer, one for each pass."""
    layer = nn.Sequential(nn.Linear(operands.x.shape[1], operands.grad.shape[1], bias=False))
    precision = LayerPrecision(wgrad_grad_output=parse_cast(grad_cast), wgrad_input=parse_cast(input_cast))
    convert(layer, Recipe(name="wgrad", rules=(Rule(precision=precision),), engine="emulated"))
    gradients: list[Tensor] = []
    for _ in range(count):
        layer.zero_grad()
        layer(operands.x).backward(operands.grad)
        (weight,) = layer.parameters()
        assert weight.grad is not None
        gradients.append(weight.grad.clone())
    return gradients


def errors(grad_cast: str, input_cast: str, *, outliers: bool = False, count: int = DRAWS) -> tuple[float, float]:
    """Relative error of one draw (root mean square over all) and of the mean of the draws, over both layers."""
    single = mean = 0.0
    for found in layers():
        operands = found.with_outlier_tokens() if outliers else found
        exact = operands.grad.double().T @ operands.x.double()
        drawn = torch.stack(draws(operands, grad_cast, input_cast, count)).double()
        size = exact.norm().item()
        single += ((drawn - exact).square().sum((1, 2)).mean().sqrt() / size).item() / len(layers())
        mean += ((drawn.mean(0) - exact).norm() / size).item() / len(layers())
    print(f"{grad_cast} x {input_cast}{', outlier tokens' if outliers else ''}: {single:.3f}, mean {mean:.3f}")
    return single, mean


@pytest.mark.parametrize(("nearest", "stochastic"), [("nvfp4", "nvfp4 sr"), ("mxfp4", "mxfp4 x3/4 sr")])
def test_stochastic_errors_average_out_and_those_to_nearest_stay(nearest: str, stochastic: str) -> None:
    """What stochastic operands leave in the mean is noise alone; the inputs' rounding to nearest leaves its bias."""
    single, bias = errors(nearest, nearest, count=2)
    assert bias == pytest.approx(single)
    noise, both = errors(stochastic, stochastic)
    assert both < bias / 1.4
    assert both == pytest.approx(noise / DRAWS**0.5, rel=0.1)
    _, gradients_alone = errors(stochastic, nearest)
    assert both < gradients_alone < bias


def test_a_transform_spreads_outlier_tokens_in_blocks_of_32() -> None:
    plain, _ = errors("mxfp4", "mxfp4", outliers=True, count=1)
    transformed, _ = errors("mxfp4 rht32", "mxfp4 rht32", outliers=True, count=1)
    assert transformed <= 0.75 * plain


def test_a_transform_does_not_help_blocks_of_16() -> None:
    plain, _ = errors("nvfp4", "nvfp4", outliers=True, count=1)
    transformed, _ = errors("nvfp4 rht16", "nvfp4 rht16", outliers=True, count=1)
    assert transformed >= plain
