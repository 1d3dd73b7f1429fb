"""Small training jobs: model, loss and batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks._step_jobs import Job, TextLSTM, ViT, cross_entropy
from mixprec.compare import load_workload


def square(model: nn.Module, batch: Tensor) -> Tensor:
    """Mean square of the output."""
    return model(batch).square().mean()


def gpt() -> Job:
    """The built-in GPT."""
    workload = load_workload("gpt").build(0, "cpu")
    return workload.model, workload.loss, workload.batches(0)


def resnet() -> Job:
    """The built-in ResNet."""
    workload = load_workload("resnet").build(0, "cpu")
    return workload.model, workload.loss, workload.batches(0)


def vit() -> Job:
    """A ViT on 32 images."""
    return ViT(), cross_entropy, (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


def lstm() -> Job:
    """An LSTM on 32 texts."""
    return TextLSTM(), cross_entropy, (torch.randint(100, (32, 20)), torch.randint(100, (32, 20)))


JOBS: dict[str, Callable[[], Job]] = {"gpt": gpt, "resnet": resnet, "vit": vit, "lstm": lstm}
