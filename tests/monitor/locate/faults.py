"""Faults that can be planted in a model, each with the site and the causes that are right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import mixprec
from mixprec.monitor import Fault, NotReproduced
from mixprec.specs import LossScale

from .models import JOBS, Job


@dataclass(frozen=True)
class Planted:
    """What is right.

    Attributes:
        sites: any of them; empty: any site.
        causes: any of them.
        recipe: to train in.
        loss_scale: of the session.
    """

    sites: tuple[str, ...]
    causes: tuple[str, ...]
    recipe: str = "fp32"
    loss_scale: object = None
    batch: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]] = lambda arguments: arguments


def on_output(job: Job, site: str, change: Callable[[Tensor], Tensor]) -> None:
    """Let a module's output be changed inside of it."""
    job.model.get_submodule(site).register_forward_hook(lambda module, args, out: change(out))


def forward_overflow(job: Job, choose: random.Random) -> Planted:
    layers = [s for s in job.sites if isinstance(job.model.get_submodule(s), torch.nn.Linear | torch.nn.Conv2d)]
    if choose.random() < 0.5 and layers:
        site = choose.choice(layers)
        job.model.get_submodule(site).weight.data.mul_(8e5)  # large, as weights go; the products leave fp16
        return Planted((site,), ("activation overflow",), "fp16")
    site = choose.choice(job.sites)
    on_output(job, site, lambda out: out * 3e38 * 3e38)
    return Planted((site,), ("activation overflow",), choose.choice(["fp32", "bf16", "fp16"]))


class _Grown(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 3e38 * 3e38


def backward_overflow(job: Job, choose: random.Random) -> Planted:
    site = choose.choice([s for s in job.sites if s != "embed"])
    on_output(job, site, _Grown.apply)
    return Planted((site,), ("gradient overflow",), choose.choice(["fp32", "fp16", "bf16"]))


def log_of_zero(job: Job, choose: random.Random) -> Planted:
    site = choose.choice(job.sites)
    on_output(job, site, lambda out: out + (out.relu() * 1e-30 * 1e-30).log().clamp(max=0) * 1e-3)
    return Planted((site,), ("log of zero",), choose.choice(["fp32", "bf16"]))


def flushed_variance(job: Job, choose: random.Random) -> Planted:
    site = choose.choice(job.sites)

    def normed(out: Tensor) -> Tensor:
        small = (out - out.mean(-1, keepdim=True)).half() * 1e-5  # squares are flushed to zero in fp16
        variance = small.square().mean(-1, keepdim=True) + 1e-9
        return (small * variance.rsqrt()).to(out.dtype)

    on_output(job, site, normed)
    return Planted((site,), ("flushed variance",))


def masked_row(job: Job, choose: random.Random) -> Planted:
    site = choose.choice(job.sites)

    def masked(out: Tensor) -> Tensor:
        row = torch.zeros(out.shape, dtype=torch.bool)
        row.view(-1, out.shape[-1])[0] = True
        return out + out.masked_fill(row, -torch.inf).softmax(-1)

    on_output(job, site, masked)
    return Planted((site,), ("masked row",), choose.choice(["fp32", "bf16", "fp16"]))


def bad_batch(job: Job, choose: random.Random) -> Planted:
    value = choose.choice([float("nan"), float("inf"), 1e30])

    def spoiled(arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first = arguments[0].clone()
        first.view(-1)[choose.randrange(first.numel())] = value
        return (first, *arguments[1:])

    return Planted(("<input>",), ("bad input",), "fp16", None, spoiled)


def flipped_bit(job: Job, choose: random.Random) -> Planted:
    weights = [(n, p) for n, p in job.model.named_parameters() if p.dim() > 1 and "wpe" not in n and "wte" not in n]
    weights = [(n, p) for n, p in weights if "embed" not in n]
    name, p = choose.choice(weights)
    bits = p.data.view(-1)
    place = choose.choice((bits != 0).nonzero().flatten().tolist())
    as_int = bits.view(torch.int32)
    as_int[place] = as_int[place] ^ (1 << 30)
    return Planted((name,), ("flipped bit",), "fp16")  # beyond fp16's range, whatever it is multiplied by


def loss_scale_too_high(job: Job, choose: random.Random) -> Planted:
    return Planted((), ("loss scale too high",), "fp16", 2.0 ** choose.randrange(26, 40))


FAULTS: dict[str, Callable[[Job, random.Random], Planted]] = {
    "forward overflow": forward_overflow,
    "backward overflow": backward_overflow,
    "log of zero": log_of_zero,
    "flushed variance": flushed_variance,
    "masked row": masked_row,
    "bad batch": bad_batch,
    "flipped bit": flipped_bit,
    "loss scale too high": loss_scale_too_high,
}


def outcome(model: str, kind: str, seed: int) -> tuple[Planted, Fault | NotReproduced | None, str]:
    """Plant a fault, train a step, and give what was right, what was found, and the step's reason."""
    choose = random.Random(f"{model} {kind} {seed}")
    torch.manual_seed(seed)
    job = JOBS[model]()
    planted = FAULTS[kind](job, choose)
    optimizer = torch.optim.SGD(job.model.parameters(), lr=1e-3)
    session = mixprec.prepare(job.model, optimizer, planted.recipe, loss_scale=planted.loss_scale, clip_norm=1.0)
    arguments, targets = job.batch(seed)
    result = session.step(job.loss(job.model(*planted.batch(arguments)), targets))
    return planted, session.fault, "" if result.applied else result.reason


def is_right(planted: Planted, found: Fault | NotReproduced | None) -> bool:
    """Whether site and cause are."""
    if not isinstance(found, Fault):
        return False
    return (not planted.sites or found.site in planted.sites) and found.cause in planted.causes


def healthy(model: str, seed: int, steps: int = 8) -> list[str]:
    """Train a healthy model under a dynamic scale that begins too high and probes upward; names of what was found."""
    torch.manual_seed(seed)
    job = JOBS[model]()
    optimizer = torch.optim.SGD(job.model.parameters(), lr=1e-3)
    scale = LossScale(kind="dynamic", initial=2.0 ** random.Random(seed).randrange(18, 34), interval=2)
    session = mixprec.prepare(job.model, optimizer, "fp16", loss_scale=scale)
    for i in range(steps):
        arguments, targets = job.batch(100 * seed + i)
        session.step(job.loss(job.model(*arguments), targets))
    return [f"{finding.severity}: {finding}" for finding in session.findings]
