"""A loss of 1e-4 of its size: fp16 flushes its gradients, and a loss scale brings them back."""

from __future__ import annotations

import copy

import pytest
from torch import Tensor, nn

from mixprec import Workload
from mixprec.specs import LossScale, recipe

from .training import baseline, train, watched

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loss scale")]

FACTOR = 1e-4


def test_fp16_without_a_scale_flushes_nine_gradients_of_ten() -> None:
    """Counted over the gradients of every linear layer's output, of an fp32 model at six moments of its training."""
    nonzero = flushed = 0

    def watch(step: int, model: nn.Module, job: Workload) -> None:
        nonlocal nonzero, flushed
        if step in (20, 50, 100, 200, 400, 700):
            for grad in output_gradients(model, job, step):
                scaled = grad * FACTOR
                nonzero += int((scaled != 0).sum())
                flushed += int(((scaled != 0) & (scaled.half() == 0)).sum())

    watched(recipe("fp32"), 0, watch)
    print(f"{flushed / nonzero:.3f} of the nonzero gradients flushed")
    assert flushed / nonzero > 0.9


def output_gradients(model: nn.Module, job: Workload, step: int) -> list[Tensor]:
    """Gradients of all linear layers' outputs for one batch, on a copy of the model."""
    twin = copy.deepcopy(model)
    gradients: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: Tensor) -> None:
        output.register_hook(gradients.append)

    for module in twin.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(keep)
    job.loss(twin, job.batches(step)).backward()
    return gradients


def test_fp16_without_a_scale_loses() -> None:
    chosen = recipe("fp16", engine="emulated", loss_scale=LossScale(kind="static", initial=1.0))
    gap = train(chosen, 0, loss_factor=FACTOR).loss - baseline(0)
    print(f"fp16, scale 1: {gap:+.4f}")
    assert gap >= 0.3


@pytest.mark.parametrize(
    "scale", [LossScale(kind="static", initial=2.0**15), LossScale(kind="dynamic")], ids=["2^15", "dynamic"]
)
def test_a_scale_brings_the_loss_back(scale: LossScale) -> None:
    outcome = train(recipe("fp16", engine="emulated", loss_scale=scale), 0, loss_factor=FACTOR)
    print(f"fp16, {scale.kind}: {outcome.loss - baseline(0):+.4f}, ends at {outcome.loss_scale:g}")
    assert outcome.loss - baseline(0) <= 0.01
