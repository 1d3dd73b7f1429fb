"""One small training run under a recipe, and how much worse than fp32 it ended."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from mixprec import Recipe, Workload, prepare
from mixprec.compare.workloads.gpt import GPTConfig, workload
from mixprec.specs import LayerPrecision, Rule, recipe

#: At 400 steps the small gradients that unscaled formats flush do not yet decide this text's loss (gap of E4M3 forward
#: with E5M2 gradients: 0.01); at 800 they do (0.16). The loss then ends near 1.9 nats a character.
STEPS = 800
BATCH = GPTConfig().batch
SEEDS = (0, 1, 2)

#: Environment variable: the folder in which the processes of one run of the tests share what trainings end with.
SHARED = "MIXPREC_TESTS_MINIATURES"

Watch = Callable[[int, nn.Module, Workload], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run ended with.

    Attributes:
        loss: on held-out text [nats per character], in the recipe's own forward pass.
        skipped: steps that were not applied.
        loss_scale: the last.
    """

    loss: float
    skipped: int
    loss_scale: float


def train(
    chosen: Recipe,
    seed: int,
    *,
    steps: int = STEPS,
    batch: int = BATCH,
    loss_factor: float = 1.0,
    watch: Watch | None = None,
) -> Outcome:
    """Train the built-in character GPT.

    Args:
        chosen: the recipe; its engine is set to emulated, so that every machine computes the same.
        seed: of weights, data order and stochastic casts.
        steps: of training.
        batch: windows of text in a step; the mean over fewer has larger gradients.
        loss_factor: multiplies the loss. Adam's epsilon and the clip norm go with it, so that in exact arithmetic
            nothing else changes.
        watch: called with the step, the model and the workload before every step.
    """
    torch.set_num_threads(1)
    job = workload(seed, "cpu", steps=steps, config=GPTConfig(batch=batch))
    model, optimizer = job.model, job.optimizer(job.model.parameters())
    (group,) = optimizer.param_groups
    base_rate, group["eps"] = group["lr"], group["eps"] * loss_factor
    assert job.clip_norm is not None
    assert job.schedule is not None
    session = prepare(model, optimizer, chosen, clip_norm=job.clip_norm * loss_factor, seed=seed)
    for step in range(steps):
        if watch is not None:
            watch(step, model, job)
        group["lr"] = base_rate * job.schedule(session.applied)
        session.step(job.loss(model, job.batches(step)) * loss_factor)
    with torch.no_grad():
        loss = job.evaluate(model.eval())["loss"]
    return Outcome(loss=loss, skipped=session.skipped, loss_scale=session.loss_scale)


def baseline(seed: int, steps: int = STEPS, batch: int = BATCH) -> float:
    """The loss that fp32 ends with; trained once in a run of the tests."""
    return final_loss(recipe("fp32"), seed, steps, batch)


def gap(chosen: Recipe, seed: int, steps: int = STEPS, batch: int = BATCH) -> float:
    """How much worse than fp32 of the same seed a recipe ends [nats per character]; trained once in a run."""
    return final_loss(chosen, seed, steps, batch) - baseline(seed, steps, batch)


def watched(chosen: Recipe, seed: int, watch: Watch) -> None:
    """A training that is looked at, which must leave it as it is: it is the one that `baseline` and `gap` ask for."""
    with _known(chosen, seed, STEPS, BATCH) as told:
        loss = train(chosen, seed, watch=watch).loss
        assert told.loss in (None, loss), "who looks has changed the training"
        told.loss = loss


@functools.cache
def final_loss(chosen: Recipe, seed: int, steps: int, batch: int = BATCH) -> float:
    """What a training ends with; another process that needs the same one waits for it."""
    with _known(chosen, seed, steps, batch) as told:
        if told.loss is None:
            told.loss = train(chosen, seed, steps=steps, batch=batch).loss
        return told.loss


@dataclass
class _Told:
    loss: float | None


@contextmanager
def _known(chosen: Recipe, seed: int, steps: int, batch: int) -> Iterator[_Told]:
    """What the processes of this run know of a training; what is known after it is kept for them."""
    named = f"{chosen.name} {hashlib.sha256(chosen.to_toml().encode()).hexdigest()[:16]} {seed} {steps} {batch}"
    file = Path(os.environ[SHARED]) / f"{named}.txt"
    file.parent.mkdir(exist_ok=True)
    with open(file, "a+", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.seek(0)
        known = held.read()
        told = _Told(float.fromhex(known) if known else None)
        yield told
        if not known and told.loss is not None:
            held.write(told.loss.hex())


def linear_recipe(name: str, precision: LayerPrecision) -> Recipe:
    """Every linear but the head in the given casts; the rest in fp32."""
    rules = (Rule(match="head"), Rule(type="Linear", precision=precision))
    return Recipe(name=name, rules=rules, engine="emulated")
