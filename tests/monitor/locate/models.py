"""Four small models that faults are planted in: a GPT, a ResNet, an LSTM, one of Hugging Face's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

VOCABULARY = 32


@dataclass(frozen=True)
class Job:
    """A model, its batches and its loss.

    Attributes:
        model: freshly initialised.
        batch: ``batch(i)`` gives arguments and targets.
        loss: of the model's output and the targets.
        sites: paths of modules whose output is a tensor that a fault can be planted in.
        is_float: whether the model takes floating inputs.
    """

    model: nn.Module
    batch: Callable[[int], tuple[tuple[Tensor, ...], Tensor]]
    loss: Callable[[object, Tensor], Tensor]
    sites: tuple[str, ...]
    is_float: bool


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        x = x + self.out(scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v)
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))).relu()


class ResNet(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.Sequential(Residual(width), Residual(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inp, self.lstm = nn.Linear(4, width), nn.LSTM(width, width, batch_first=True)
        self.mid, self.head = nn.Linear(width, width), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mid(self.lstm(self.inp(x))[0].tanh()))


def _generator(i: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + i)


def gpt() -> Job:
    def batch(i: int) -> tuple[tuple[Tensor, ...], Tensor]:
        tokens = torch.randint(0, VOCABULARY, (2, 9), generator=_generator(i))
        return (tokens[:, :-1],), tokens[:, 1:]

    sites = tuple(f"blocks.{i}.{name}" for i in range(2) for name in ("norm1", "qkv", "out", "fc1", "fc2"))
    return Job(GPT(), batch, _tokens_loss, (*sites, "norm", "head", "embed"), False)


def resnet() -> Job:
    def batch(i: int) -> tuple[tuple[Tensor, ...], Tensor]:
        g = _generator(i)
        return (torch.randn(4, 1, 6, 6, generator=g),), torch.randint(0, 10, (4,), generator=g)

    sites = tuple(f"blocks.{i}.{name}" for i in range(2) for name in ("conv1", "norm1", "conv2", "norm2"))
    return Job(ResNet(), batch, lambda out, t: cross_entropy(out, t), ("stem", *sites, "head"), True)


def lstm() -> Job:
    def batch(i: int) -> tuple[tuple[Tensor, ...], Tensor]:
        g = _generator(i)
        return (torch.randn(3, 5, 4, generator=g),), torch.randint(0, 5, (3, 5), generator=g)

    return Job(Recurrent(), batch, _tokens_loss, ("inp", "mid", "head"), True)


@cache
def _configuration() -> object:
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=VOCABULARY, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.1, use_cache=False
    )


def hugging_face() -> Job:
    from transformers import GPT2LMHeadModel

    def batch(i: int) -> tuple[tuple[Tensor, ...], Tensor]:
        tokens = torch.randint(0, VOCABULARY, (2, 9), generator=_generator(i))
        return (tokens[:, :-1],), tokens[:, 1:]

    layers = tuple(
        f"transformer.h.{i}.{name}" for i in range(2) for name in ("ln_1", "attn.c_proj", "mlp.c_fc", "ln_2")
    )
    return Job(
        GPT2LMHeadModel(_configuration()),
        batch,
        lambda out, t: _tokens_loss(out.logits, t),
        (*layers, "transformer.ln_f", "lm_head"),
        False,
    )


def _tokens_loss(out: object, targets: Tensor) -> Tensor:
    return cross_entropy(out.flatten(0, 1), targets.flatten())


JOBS: dict[str, Callable[[], Job]] = {"gpt": gpt, "resnet": resnet, "lstm": lstm, "hugging face": hugging_face}
