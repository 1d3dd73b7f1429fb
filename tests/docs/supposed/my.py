"""The workload that the pages call my.py: tokens, two blocks and a head, trained for a few steps."""

import torch
from torch import nn

import mixprec
from mixprec.optim import AdamW

WIDTH, TOKENS = 128, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fc1, fc2 = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.mlp = nn.ModuleDict({"fc1": fc1, "fc2": fc2})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp["fc2"](torch.relu(self.mlp["fc1"](x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten())


def workload(seed: int, device: str, steps: int = 8) -> mixprec.Workload:
    torch.manual_seed(seed)

    def batches(step: int) -> torch.Tensor:
        start = torch.randint(TOKENS, (4, 1), generator=torch.Generator().manual_seed(1_000 * seed + step))
        return ((start + torch.arange(33)) % TOKENS).to(device)

    return mixprec.Workload(
        model=Model().to(device),
        loss=loss,
        batches=batches,
        optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
        steps=steps,
        evaluate=lambda model: {"loss": loss(model, batches(999)).item()},
        tokens_per_step=4 * 32,
    )
