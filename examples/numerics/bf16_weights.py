"""A classifier of digits at a small learning rate: weights of 16 bits that are rounded to nearest lose its updates.

mixprec compare bf16_weights.py --targets bf16_weights.toml --recipes fp32,bf16-true,bf16-sr,bf16-kahan
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import mixprec
from mixprec.compare import MetricGoal

TRAINING, BATCH, LR = 1400, 64, 1e-4
Batch = tuple[Tensor, Tensor]


def digits() -> Batch:
    """Images ``[n, 64]`` from 0 to 1 and their labels, shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]


def classifier() -> nn.Sequential:
    """Two hidden layers of 64."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def workload(seed: int, device: str, steps: int = 3000) -> mixprec.Workload:
    """``loss`` is that of the training digits, which shows what updates did; ``accuracy`` that of the held-out ones."""
    images, labels = (values.to(device) for values in digits())
    torch.manual_seed(seed)

    def batches(step: int) -> Batch:
        generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + step)
        chosen = torch.randint(0, TRAINING, (BATCH,), generator=generator)
        return images[chosen], labels[chosen]

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(model(batch[0]).float(), batch[1])

    def evaluate(model: nn.Module) -> dict[str, float]:
        right = model(images[TRAINING:]).argmax(1) == labels[TRAINING:]
        training = loss(model, (images[:TRAINING], labels[:TRAINING])).item()
        return {"loss": training, "accuracy": right.double().mean().item()}

    return mixprec.Workload(
        model=classifier().to(device),
        batches=batches,
        loss=loss,
        evaluate=evaluate,
        steps=steps,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=LR, betas=(0.9, 0.99), weight_decay=0.0),
        metrics={"accuracy": MetricGoal(better="higher")},
        tokens_per_step=BATCH,
        name="bf16_weights",
    )
