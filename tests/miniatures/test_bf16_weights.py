"""Weights of 16 bits: rounding updates to nearest loses nearly all of them; the other ways of keeping lose none."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import mixprec.optim
from examples.numerics.bf16_weights import BATCH, LR, TRAINING, classifier, digits
from mixprec import prepare
from mixprec.optim import narrow_parameters
from mixprec.specs import Moments, Recipe, recipe

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bf16 weights")]

STEPS = 3000
TORCH, OURS = "torch", "mixprec"
OPTIMIZERS = {TORCH: torch.optim.AdamW, OURS: mixprec.optim.AdamW}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run ended with.

    Attributes:
        loss: on the training digits.
        accuracy: on the held-out ones.
        lost: share of the nonzero updates that left their weight as it was.
        unmoved: share of the weights with a gradient (pixels that are never lit give none) that never moved.
    """

    loss: float
    accuracy: float
    lost: float
    unmoved: float


@functools.cache
def train(kind: str | None, lr: float, optimizer: str = TORCH, moments: str = "fp32") -> Outcome:
    """Adam for 3,000 steps under a 16-bit recipe; ``kind`` of ``None``: the recipe ``fp32``."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, params = (built := classifier()), list(built.parameters())
    kept = Moments(kind=moments, small=0)
    chosen = recipe("fp32") if kind is None else Recipe(name=kind, compute_dtype="bf16", weights=kind, moments=kept)
    if kind is not None:
        narrow_parameters(model, torch.bfloat16)
    adam = OPTIMIZERS[optimizer](params, lr=lr, betas=(0.9, 0.99), weight_decay=0.0)
    session = prepare(model, adam, chosen)
    images, labels = digits()
    began = [p.detach().clone() for p in params]
    generator = torch.Generator().manual_seed(0)
    lost = updates = 0
    reached = [torch.zeros_like(p, dtype=torch.bool) for p in params]
    for _ in range(STEPS):
        i = torch.randint(0, TRAINING, (BATCH,), generator=generator)
        session.backward(functional.cross_entropy(model(images[i]).float(), labels[i]))
        for p, mask in zip(params, reached, strict=True):
            mask |= p.grad.abs() > 1e-6
        before = [p.detach().clone() for p in params] if kind == "true" else []
        assert session.step().applied
        for p, old in zip(params, before, strict=bool(before)):
            moving = adam.state[p]["exp_avg"] != 0
            lost, updates = lost + int((moving & (p == old)).sum()), updates + int(moving.sum())
    still = [(p == old)[mask] for p, old, mask in zip(params, began, reached, strict=True)]
    with torch.no_grad():
        loss = float(functional.cross_entropy(model(images[:TRAINING]).float(), labels[:TRAINING]))
        accuracy = float((model(images[TRAINING:]).argmax(1) == labels[TRAINING:]).float().mean())
    return Outcome(loss=loss, accuracy=accuracy, lost=lost / max(updates, 1), unmoved=share(still))


def share(masks: list[Tensor]) -> float:
    return sum(int(m.sum()) for m in masks) / sum(m.numel() for m in masks)


def test_rounding_to_nearest_loses_nine_updates_of_ten_and_does_not_learn() -> None:
    outcome = train("true", LR)
    print(f"nearest: {outcome}")
    assert outcome.lost > 0.9
    assert outcome.accuracy < 0.6
    assert outcome.unmoved > 0.5


@pytest.mark.parametrize("kind", ["master", "split", "kahan", "stochastic"])
def test_the_other_ways_match_fp32(kind: str) -> None:
    close(train(kind, LR))


@pytest.mark.parametrize(
    ("kind", "moments"),
    [("split", "fp32"), ("kahan", "bf16"), ("split", "dynamic"), ("stochastic", "e4m3"), ("kahan", "e4m3")],
)
def test_so_do_the_optimizers_of_this_package(kind: str, moments: str) -> None:
    close(train(kind, LR, OURS, moments))


def close(outcome: Outcome) -> None:
    fp32 = train(None, LR)
    print(f"fp32: {fp32}; {outcome}")
    assert fp32.unmoved < 0.05
    assert outcome.unmoved < 0.05
    assert outcome.accuracy >= fp32.accuracy - 0.01
    assert outcome.loss <= 1.05 * fp32.loss + 1e-3
