"""A small residual network on scikit-learn's handwritten digits: the workload ``resnet``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._workload import Workload
from ._schedule import warmup_cosine

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class ResNetConfig:
    """Sizes of the model and of its training; the defaults reach 98 % on two CPU cores in seconds."""

    widths: tuple[int, ...] = (16, 32)
    batch: int = 64
    steps: int = 300
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: int = 20
    test_images: int = 359


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm beside a shortcut: [batch, channels, height, width]."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Conv2d(channels, out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find to the shortcut."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images [batch, 1, 8, 8] to logits [batch, 10].

    Example:
        >>> ResNet((4, 8)).eval()(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        before = (widths[0], *widths)
        self.blocks = nn.Sequential(
            *(ResidualBlock(before[i], width, 1 if i == 0 else 2) for i, width in enumerate(widths))
        )
        # A hidden linear, so that recipes whose rules name linears and leave heads alone have something to round.
        self.fc = nn.Linear(widths[-1], 2 * widths[-1])
        self.head = nn.Linear(2 * widths[-1], 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the ten digits."""
        x = self.blocks(F.relu(self.norm(self.stem(images))))
        return self.head(F.relu(self.fc(x.mean((2, 3)))))


def digit_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy [nats] of a batch of (images, digits)."""
    images, digits = batch
    return F.cross_entropy(model(images), digits)


def workload(
    seed: int, device: str | torch.device, *, steps: int | None = None, config: ResNetConfig | None = None
) -> Workload:
    """Train a small residual network to read digits.

    Args:
        seed: of the initial weights and of the order of the data; the split into train and test is fixed.
        device: where the model and the data live.
        steps: training steps; ``None`` takes the configuration's.
        config: sizes; ``None`` takes the defaults.

    Example:
        >>> job = workload(0, "cpu", steps=5)
        >>> job.name, tuple(job.batches(0)[0].shape)
        ('resnet', (64, 1, 8, 8))
    """
    config = config or ResNetConfig()
    steps = config.steps if steps is None else steps
    images, digits, sha256 = _load_digits(device)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).to(device)
    test, train = order[: config.test_images], order[config.test_images :]
    torch.manual_seed(seed)
    return Workload(
        model=ResNet(config.widths).to(device),
        loss=digit_loss,
        batches=_epochs(images[train], digits[train], config.batch, seed),
        optimizer=_sgd(config),
        steps=steps,
        schedule=warmup_cosine(steps, warmup=min(config.warmup, max(1, steps // 8)), final=0.01),
        evaluate=_evaluation(images[test], digits[test]),
        tokens_per_step=config.batch,
        name="resnet",
        data={"name": "sklearn.datasets.load_digits", "sha256": sha256},
    )


def _load_digits(device: str | torch.device) -> tuple[Tensor, Tensor, str]:
    """Images in [0, 1] [1797, 1, 8, 8], digits [1797], and the hash of the pixels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ValueError(f"workload 'resnet' needs scikit-learn: pip install scikit-learn ({error})") from error
    pixels, digits = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().div(16).reshape(-1, 1, 8, 8)
    sha256 = hashlib.sha256(pixels.astype("<f8").tobytes()).hexdigest()
    return images.to(device), torch.from_numpy(digits).long().to(device), sha256


def _epochs(images: Tensor, digits: Tensor, batch: int, seed: int) -> Callable[[int], Batch]:
    """Full batches of a fresh order per epoch."""
    per_epoch = len(images) // batch

    def batches(step: int) -> Batch:
        epoch, place = divmod(step, per_epoch)
        generator = torch.Generator().manual_seed((seed + 1) * 1_000_003 + epoch)
        chosen = torch.randperm(len(images), generator=generator)[place * batch : (place + 1) * batch]
        chosen = chosen.to(images.device)
        return images[chosen], digits[chosen]

    return batches


def _sgd(config: ResNetConfig) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(
        parameters, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )


def _evaluation(images: Tensor, digits: Tensor) -> Callable[[nn.Module], dict[str, float]]:
    """Loss and accuracy on the test images, and the accuracy of each digit."""

    def evaluate(model: nn.Module) -> dict[str, float]:
        logits = model(images).float()
        right = (logits.argmax(1) == digits).double()
        metrics = {"loss": F.cross_entropy(logits, digits).item(), "accuracy": right.mean().item()}
        return metrics | {f"accuracy/digit-{d}": right[digits == d].mean().item() for d in range(10)}

    return evaluate
