"""Small models shared by the tests of conversion."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn


class Attention(nn.Module):
    """Causal self-attention that calls the function itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.o = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class TinyGPT(nn.Module):
    """Two blocks on 17 tokens; ``checkpointed`` recomputes them in the backward pass."""

    def __init__(self, width: int = 32, checkpointed: bool | None = None, blocks: int = 2) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.embed = nn.Embedding(17, width)
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 17, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            if self.checkpointed is None:
                x = block(x)
            else:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.checkpointed)
        return self.head(self.norm(x))


def tiny_gpt(checkpointed: bool | None = None, blocks: int = 2) -> TinyGPT:
    """A tiny GPT with seed 0."""
    torch.manual_seed(0)
    return TinyGPT(checkpointed=checkpointed, blocks=blocks)


def tokens(seed: int = 1) -> Tensor:
    """Two sequences of 24 tokens."""
    return torch.randint(0, 17, (2, 24), generator=torch.Generator().manual_seed(seed))


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Next-token cross-entropy."""
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def gradients(model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    """Loss and gradients of one step, by name."""
    model.zero_grad()
    loss = loss_of(model, tokens)
    loss.backward()
    return {"loss": loss.detach(), **{n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}}
