"""Training jobs whose steps are predicted and measured: the built-in ones, and two that calibration has not seen."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.compare import load_workload

Job = tuple[nn.Module, Callable[[nn.Module, Any], Tensor], Any]


class ViT(nn.Module):
    """Patches of an image through an encoder of two layers: [batch, 3, 32, 32] to [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.position = nn.Conv2d(3, 64, 4, 4), nn.Parameter(torch.zeros(1, 64, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images."""
        return self.head(self.encoder(self.patch(x).flatten(2).mT + self.position).mean(1))


class TextLSTM(nn.Module):
    """Tokens through an LSTM of two layers: [batch, time] to [batch, time, 100]."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.cells = nn.Embedding(100, 64), nn.LSTM(64, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the tokens behind each."""
        return self.head(self.cells(self.tokens(x))[0])


def cross_entropy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean over all targets."""
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


def _built_in(name: str) -> Job:
    workload = load_workload(name).build(0, "cpu")
    return workload.model, workload.loss, workload.batches(0)


def _vit() -> Job:
    return ViT(), cross_entropy, (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


def _lstm() -> Job:
    return TextLSTM(), cross_entropy, (torch.randint(100, (32, 20)), torch.randint(100, (32, 20)))


JOBS: dict[str, Callable[[], Job]] = {
    "gpt": lambda: _built_in("gpt"),
    "resnet": lambda: _built_in("resnet"),
    "vit": _vit,
    "lstm": _lstm,
}
