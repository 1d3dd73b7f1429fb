"""A model's passes that leave it as it was: its modes, buffers, gradients and random numbers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def frozen(model: nn.Module) -> Generator[None]:
    """Inside, no parameter asks for a gradient: passes whose only aim is an activation's make none."""
    asking = [p for p in model.parameters() if p.requires_grad]
    for p in asking:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in asking:
            p.requires_grad_()


@contextmanager
def aside(model: nn.Module, *, training: bool | None) -> Generator[None]:
    """Inside, the model is in evaluation (or training) mode, and what passes change is put back afterwards.

    Args:
        model: of any device.
        training: the mode of every module; ``None`` leaves each in its own.
    """
    modes = {module: module.training for module in model.modules()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        try:
            if training is not None:
                model.train(training)
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode
            with torch.no_grad():
                for name, buffer in model.named_buffers():
                    buffer.copy_(buffers[name])
