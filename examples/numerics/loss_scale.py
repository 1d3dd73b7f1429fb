"""The built-in GPT with its loss at 1e-4 of its size, as large models' small gradients are: fp16 needs a loss scale.

    mixprec compare loss_scale.py --targets loss_scale.toml \
        --recipes fp32,recipes/fp16-scale-1.toml,recipes/fp16-scale-32768.toml,recipes/fp16-dynamic.toml

Adam's epsilon and the clip norm go with the factor, so that in exact arithmetic nothing else changes.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

import mixprec
from mixprec.compare.workloads.gpt import workload as gpt

FACTOR = 1e-4


def workload(seed: int, device: str, steps: int = 800) -> mixprec.Workload:
    """The GPT of a seed; held-out text is measured at its full size."""
    job = gpt(seed, device, steps=steps)

    def optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        made = job.optimizer(parameters)
        for group in made.param_groups:
            group["eps"] *= FACTOR
        return made

    return replace(
        job,
        loss=lambda model, batch: job.loss(model, batch) * FACTOR,
        optimizer=optimizer,
        clip_norm=job.clip_norm * FACTOR if job.clip_norm else None,
        name="loss_scale",
    )
