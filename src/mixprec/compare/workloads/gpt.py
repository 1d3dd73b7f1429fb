"""A small GPT that reads characters: the workload ``gpt``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._workload import Workload
from ._schedule import warmup_cosine
from ._text import CharacterText, read_characters

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Sizes of the model and of its training.

    The defaults are small enough for two CPU cores and large enough that a poor 4-bit recipe is told from a good
    one; the loss of 400 steps on a text of half a million characters varies by about 0.01 between seeds.
    """

    width: int = 64
    layers: int = 2
    heads: int = 4
    context: int = 64
    batch: int = 16
    steps: int = 400
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    warmup: int = 50
    held_out: float = 0.1
    evaluation_batches: int = 16
    evaluation_batch: int = 32

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")


class Attention(nn.Module):
    """Causal self-attention: [batch, time, width] to the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend to this and earlier positions."""
        batch, time, width = x.shape
        heads = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(attended.transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    """Two linears around a GELU, on the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width, bias=False)
        self.fc2 = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Widen four times, bend, narrow."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """One pre-norm transformer block: [batch, time, width] to the same shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        """Add attention, then the MLP, to the residual stream."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Character numbers [batch, time] (int64) to logits [batch, time, vocabulary].

    Weights start as GPT-2's do: normal with standard deviation 0.02, smaller by ``sqrt(2 * layers)`` where a layer
    writes to the residual stream.

    Example:
        >>> model = GPT(vocabulary=50, config=GPTConfig(width=32, layers=1, heads=2, context=8))
        >>> model(torch.zeros(2, 8, dtype=torch.int64)).shape
        torch.Size([2, 8, 50])
    """

    def __init__(self, *, vocabulary: int, config: GPTConfig) -> None:
        super().__init__()
        width = config.width
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(config.context, width)
        self.blocks = nn.ModuleList(Block(width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                residual = name.endswith((".o", ".fc2"))
                nn.init.normal_(module.weight, std=0.02 / (math.sqrt(2 * config.layers) if residual else 1.0))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next character at each position."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_character_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy [nats per character] of a batch of (characters, next characters)."""
    inputs, targets = batch
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def workload(
    seed: int,
    device: str | torch.device,
    *,
    steps: int | None = None,
    data: str | Path | None = None,
    config: GPTConfig | None = None,
) -> Workload:
    """Train a small GPT on characters.

    Args:
        seed: of the initial weights and of the order of the data.
        device: where the model and the data live.
        steps: training steps; ``None`` takes the configuration's.
        data: a UTF-8 text file; ``None`` takes Python's own documentation. The last tenth is held out.
        config: sizes; ``None`` takes the defaults.

    Raises:
        ValueError: if the text is empty, too short or not UTF-8.
        OSError: if the file cannot be read.

    Example:
        >>> job = workload(0, "cpu", steps=10)
        >>> job.name, job.steps, tuple(job.batches(0)[0].shape)
        ('gpt', 10, (16, 64))
    """
    config = config or GPTConfig()
    steps = config.steps if steps is None else steps
    # The held-out part must itself hold one context and the character after it.
    text = read_characters(data, at_least=math.ceil((config.context + 2) / config.held_out))
    split = int(len(text.ids) * (1 - config.held_out))
    train, held_out = text.ids[:split].to(device), text.ids[split:].to(device)
    torch.manual_seed(seed)
    return Workload(
        model=GPT(vocabulary=len(text.characters), config=config).to(device),
        loss=next_character_loss,
        batches=lambda step: _windows(train, config.batch, config.context, (seed + 1) * 1_000_003 + step),
        optimizer=_adamw(config),
        steps=steps,
        schedule=warmup_cosine(steps, warmup=min(config.warmup, max(1, steps // 8))),
        evaluate=_evaluation(held_out, text, config),
        clip_norm=config.clip_norm,
        tokens_per_step=config.batch * config.context,
        name="gpt",
        data={"name": text.name, "sha256": text.sha256},
    )


def _windows(ids: Tensor, count: int, context: int, seed: int) -> Batch:
    """``count`` windows at random places, and the same moved on by one character."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(ids) - context, (count, 1), generator=generator)
    places = (starts + torch.arange(context)).to(ids.device)
    return ids[places], ids[places + 1]


def _adamw(config: GPTConfig) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.AdamW(
        parameters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
    )


def _evaluation(ids: Tensor, text: CharacterText, config: GPTConfig) -> Callable[[nn.Module], dict[str, float]]:
    """Loss on fixed windows of the held-out text: of all characters, and of letters, spaces and the rest."""
    kinds = torch.tensor([0 if c.isalpha() else 1 if c.isspace() else 2 for c in text.characters], device=ids.device)
    windows = [
        _windows(ids, config.evaluation_batch, config.context, 999 + i) for i in range(config.evaluation_batches)
    ]

    def evaluate(model: nn.Module) -> dict[str, float]:
        losses: list[Tensor] = []
        for inputs, targets in windows:
            logits = model(inputs).flatten(0, 1).float()
            losses.append(F.cross_entropy(logits, targets.flatten(), reduction="none"))
        every = torch.cat(losses).double()
        kind = kinds[torch.cat([targets.flatten() for _, targets in windows])]
        metrics = {"loss": every.mean().item()}
        for i, name in enumerate(("letters", "spaces", "other")):
            if bool((kind == i).any()):
                metrics[f"loss/{name}"] = every[kind == i].mean().item()
        return metrics

    return evaluate
