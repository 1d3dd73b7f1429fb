"""Five further model kinds that faults are planted in: none of them was at hand when the rules were made."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .models import Subject


class Encoder(nn.Module):
    """Torch's own transformer encoder between two linears."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(8, 32), nn.Linear(32, 5)
        layer = nn.TransformerEncoderLayer(32, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.outward(self.encoder(self.inward(x)).mean(1))


class Translator(nn.Module):
    """A GRU that reads and one that writes."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.norm, self.outward = nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 5)
        self.reader, self.writer = nn.GRU(32, 32, batch_first=True), nn.GRU(32, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.inward(x))
        _, state = self.reader(h)
        y, _ = self.writer(h, state)
        return self.outward(y[:, -1])


class UNet(nn.Module):
    """Convolutions down and up, with skip connections; the time enters as an embedding where it is given."""

    def __init__(self, times: bool) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.middle = nn.GroupNorm(2, 16), nn.Conv2d(16, 16, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 3, padding=1)
        self.embed = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)) if times else None

    def forward(self, x: Tensor) -> Tensor:
        a = F.silu(self.first(x))
        h = F.silu(self.norm(self.down(a)))
        if self.embed is not None:
            angles = torch.arange(1, len(x) + 1)[:, None] * torch.logspace(0, -3, 8)
            h = h + self.embed(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        h = F.silu(self.middle(h)) + h
        return self.last(torch.cat([a, self.up(h)], 1))


def encoder(seed: int) -> Subject:
    torch.manual_seed(seed)
    layers = [f"encoder.layers.{i}.{part}" for i in range(2) for part in ("linear1", "linear2", "norm1", "norm2")]
    return _classifier(Encoder(), (*layers, "inward", "outward"))


def gru(seed: int) -> Subject:
    torch.manual_seed(seed)
    return _classifier(Translator(), ("inward", "norm", "outward"))


def _classifier(model: nn.Module, places: tuple[str, ...]) -> Subject:
    x, y = torch.randn(3, 6, 8), torch.randint(0, 5, (3,))
    return Subject(model, (x,), lambda out: F.cross_entropy(out.float(), y), places)


def unet(seed: int) -> Subject:
    torch.manual_seed(seed)
    x, y = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    places = ("first", "down", "norm", "middle", "up", "last")
    return Subject(UNet(False), (x,), lambda out: F.mse_loss(out.float(), y), places)


def diffusion(seed: int) -> Subject:
    torch.manual_seed(seed)
    x, noise = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    places = ("first", "down", "norm", "middle", "up", "last", "embed.0", "embed.2")
    return Subject(UNet(True), (x + noise,), lambda out: F.mse_loss(out.float(), noise), places)


def bert(seed: int) -> Subject:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=20, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_labels=3
    )
    ids, y = torch.randint(0, 20, (3, 7)), torch.randint(0, 3, (3,))
    parts = ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense", "output.LayerNorm")
    layers = [f"bert.encoder.layer.{i}.{part}" for i in range(2) for part in parts]
    return Subject(
        BertForSequenceClassification(config),
        (ids,),
        lambda out: F.cross_entropy(out.logits.float(), y),
        (*layers, "bert.embeddings.LayerNorm", "bert.pooler.dense", "classifier"),
    )


FURTHER: dict[str, Callable[[int], Subject]] = {
    "encoder": encoder,
    "gru": gru,
    "unet": unet,
    "diffusion": diffusion,
    "bert": bert,
}
