"""Small models of many kinds, healthy ones; each gives its loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_generator = torch.Generator().manual_seed(1)
ROWS = torch.randn(16, 32, generator=_generator)
IMAGES = torch.randn(8, 3, 16, 16, generator=_generator)


class Autoencoder(nn.Module):
    """Variational: exponentials of log-variances."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(32, 32), nn.Linear(16, 32)

    def forward(self) -> Tensor:
        mean, log_variance = self.encode(ROWS).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return F.mse_loss(self.decode(z), ROWS) - 0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).mean()


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3),
            nn.GroupNorm(4, 32), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32, 16),
        )  # fmt: skip

    def forward(self) -> Tensor:
        return F.cross_entropy(self.layers(IMAGES), torch.arange(8), label_smoothing=0.1)


class Contrastive(nn.Module):
    """Normalized embeddings under a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(32, 32), nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self) -> Tensor:
        left, right = F.normalize(self.left(ROWS), dim=-1), F.normalize(self.right(ROWS), dim=-1)
        logits = self.scale.exp() * left @ right.T
        return (F.cross_entropy(logits, torch.arange(16)) + F.cross_entropy(logits.T, torch.arange(16))) / 2


class Graph(nn.Module):
    """Messages along edges, weighted by degrees of which some are zero."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self) -> Tensor:
        source, target = torch.arange(64) % 16, (torch.arange(64) * 7) % 15
        degree = torch.zeros(16).index_add(0, target, torch.ones(64)).pow(-0.5)
        degree[degree == float("inf")] = 0
        h = self.layer(ROWS)
        messages = h[source] * degree[source, None].to(h.dtype)
        return F.cross_entropy(self.head(torch.zeros_like(h).index_add(0, target, messages).relu()), torch.arange(16))


class Diffusion(nn.Module):
    """Embedded time steps, in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.time, self.outer = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self) -> Tensor:
        frequency = torch.exp(-math.log(10000) * torch.arange(16).float() / 16)
        angle = (torch.arange(16) * 62)[:, None].float() * frequency
        h = self.inner(ROWS) + self.time(torch.cat([angle.sin(), angle.cos()], -1))
        return F.mse_loss(self.outer(F.gelu(h)), ROWS)


class Experts(nn.Module):
    """A mixture of experts, two of four for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(32, 4), nn.Linear(32, 32)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self) -> Tensor:
        share = F.softmax(self.gate(ROWS), -1)
        weight, chosen = share.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        y = torch.zeros_like(ROWS)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            y = y.index_add(0, row, (expert(ROWS[row]) * weight[row, place, None]).to(y.dtype))
        return F.mse_loss(self.head(y), ROWS) + 0.01 * (share.mean(0) ** 2).sum()


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(64, 32), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 64)

    def forward(self) -> Tensor:
        ids = torch.arange(64).reshape(4, 16)
        return F.cross_entropy(self.head(self.gru(self.embed(ids))[0]).flatten(0, 1), ids.flatten())


class Patches(nn.Module):
    """A vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, 32, 4, 4), nn.Linear(32, 16)
        self.position = nn.Parameter(torch.full((1, 16, 32), 0.02))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self) -> Tensor:
        h = self.patch(IMAGES).flatten(2).transpose(1, 2) + self.position
        return F.cross_entropy(self.head(self.encoder(h).mean(1)), torch.arange(8))


class Sines(nn.Module):
    """Coordinates through sines."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self) -> Tensor:
        line = torch.linspace(-1, 1, 8)
        at = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
        return F.mse_loss(self.head(torch.sin(self.second(torch.sin(3 * self.first(at))))), at[:, :1])


class Rotated(nn.Module):
    """Attention with a stored rotary table and a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.head = (nn.Linear(32, 32) for _ in range(4))
        angle = torch.outer(torch.arange(2048).float(), 1e4 ** (-torch.arange(0, 32, 2).float() / 32))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("causal", torch.ones(16, 16).tril().bool())

    def rotate(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[: x.shape[-2]].to(x.dtype), self.sin[: x.shape[-2]].to(x.dtype)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self) -> Tensor:
        query, key = self.rotate(self.query(ROWS)), self.rotate(self.key(ROWS))
        weight = (query @ key.T / 32**0.5).masked_fill(~self.causal, float("-inf")).softmax(-1)
        return F.mse_loss(self.head(weight @ self.value(ROWS)), ROWS)


class Distances(nn.Module):
    """Attention that falls off with the distance."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self) -> Tensor:
        h, at = self.layer(ROWS), torch.arange(16)
        falls = -(at[:, None] - at).abs().to(h.dtype) * 0.25
        return F.mse_loss(self.head((h @ h.T / 6 + falls).softmax(-1) @ h), ROWS)


class Segments(nn.Module):
    """Logits into a loss, and their sigmoid into another."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 16, 3, 2, 1), nn.ConvTranspose2d(16, 1, 2, 2)

    def forward(self) -> Tensor:
        logits, target = self.up(F.relu(self.down(IMAGES))), (IMAGES[:, :1] > 0).float()
        share = torch.sigmoid(logits)
        dice = 1 - (2 * (share * target).sum() + 1) / (share.sum() + target.sum() + 1)
        return F.binary_cross_entropy_with_logits(logits, target) + dice


class Policy(nn.Module):
    """A clipped ratio of probabilities, an entropy, standardized advantages."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(32, 32), nn.Linear(32, 8), nn.Linear(32, 1)

    def forward(self) -> Tensor:
        h, reward = torch.tanh(self.body(ROWS)), torch.linspace(-1, 1, 16)
        logarithm = F.log_softmax(self.policy(h), -1)
        chosen = logarithm[torch.arange(16), torch.arange(16) % 8]
        ratio, advantage = (chosen - chosen.detach()).exp(), (reward - reward.mean()) / (reward.std() + 1e-8)
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        entropy = -(logarithm.exp() * logarithm).sum(-1).mean()
        return F.smooth_l1_loss(self.value(h)[:, 0], reward) - gain - 0.01 * entropy


class Codebook(nn.Module):
    """The nearest of some vectors, gradients straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.codes, self.decode = nn.Linear(32, 16), nn.Embedding(32, 16), nn.Linear(16, 32)

    def forward(self) -> Tensor:
        z = self.encode(ROWS)
        code = self.codes(torch.cdist(z.float(), self.codes.weight).argmin(-1))
        commitment = F.mse_loss(code, z.detach()) + 0.25 * F.mse_loss(z, code.detach())
        return F.mse_loss(self.decode(z + (code - z).detach()), ROWS) + commitment


SMALL: tuple[Callable[[], nn.Module], ...] = (
    Autoencoder, Convolutions, Contrastive, Graph, Diffusion, Experts, Gated, Patches, Sines, Rotated, Distances,
    Segments, Policy, Codebook,
)  # fmt: skip
