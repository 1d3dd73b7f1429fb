"""Delayed scaling clips a tensor that outgrows its history, for one pass.

A Gaussian tensor of steady spread grows 64 times in one pass. What was measured is in docs/miniatures.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from mixprec.specs import Cast, parse_cast
from mixprec.tensors import amax_of, fake_quantize, record, roll

SPREADS = [1.0] * 6 + [64.0] * 3
SPIKE = 6


@dataclass(frozen=True)
class Pass:
    """What one pass did to the tensor: relative error, share clipped."""

    error: float
    clipped: float


def tensor(index: int) -> torch.Tensor:
    return SPREADS[index] * torch.randn(512, 512, generator=torch.Generator().manual_seed(index))


def relative_error(values: torch.Tensor, x: torch.Tensor) -> float:
    return ((values - x).norm() / x.norm()).item()


def run(cast: Cast) -> list[Pass]:
    assert cast.delayed is not None
    history, passes = torch.zeros(cast.delayed.history + 1), []
    for index in range(len(SPREADS)):
        x = tensor(index)
        amax = amax_of(history, cast.delayed)
        values = fake_quantize(x, cast, amax=amax)
        limit = amax * 2.0**cast.delayed.margin if amax > 0 else x.abs().amax()
        passes.append(Pass(error=relative_error(values, x), clipped=(x.abs() > limit).double().mean().item()))
        record(history, x.abs().amax())
        roll(history)
    return passes


@pytest.mark.parametrize("words", ["delayed", "delayed(16)", "delayed(4,recent)"])
def test_a_spike_is_clipped_for_one_pass(words: str) -> None:
    passes = run(parse_cast(f"e4m3[tensor] {words}"))
    print([f"{p.error:.3f} {100 * p.clipped:.1f} %" for p in passes])
    assert passes[SPIKE].clipped > 0.8
    assert passes[SPIKE].error > 0.8
    for steady in (*passes[:SPIKE], *passes[SPIKE + 1 :]):
        assert steady.error < 0.05
        assert steady.clipped < 0.001


def test_current_scaling_does_not_notice() -> None:
    for index in range(len(SPREADS)):
        assert relative_error(fake_quantize(tensor(index), "e4m3[tensor]"), tensor(index)) < 0.05


@pytest.mark.parametrize(
    ("growth", "error", "clipped"), [(8.0, 0.61, 0.57), (64.0, 0.94, 0.93), (1024.0, 0.996, 0.996)]
)
def test_the_loss_grows_with_the_spike(growth: float, error: float, clipped: float) -> None:
    x = growth * torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    amax = torch.tensor(4.54)  # of about 2**17 normal numbers
    values = fake_quantize(x, "e4m3[tensor] delayed", amax=amax)
    assert relative_error(values, x) == pytest.approx(error, abs=0.01)
    assert (x.abs() > amax).double().mean().item() == pytest.approx(clipped, abs=0.02)


def test_a_margin_takes_a_smaller_spike() -> None:
    x = 8.0 * tensor(0)
    amax = tensor(1).abs().amax()
    assert relative_error(fake_quantize(x, "e4m3[tensor] delayed(16,max,3)", amax=amax), x) < 0.05
    assert relative_error(fake_quantize(x, "e4m3[tensor] delayed(16)", amax=amax), x) > 0.5


def test_without_saturation_most_gradients_would_be_infinite() -> None:
    x = tensor(SPIKE)
    values = fake_quantize(x, "e5m2[tensor] delayed propagate", amax=tensor(0).abs().amax())
    print(f"infinite: {100 * values.isinf().double().mean().item():.0f} %")
    assert values.isinf().double().mean().item() > 0.5
    assert not fake_quantize(x, "e5m2[tensor] delayed", amax=tensor(0).abs().amax()).isinf().any()
