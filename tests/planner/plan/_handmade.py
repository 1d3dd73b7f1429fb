"""A small model, hand-made scores of it, and the plan that comes of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mixprec.planner import KEEP, Candidate, CandidateScore, GroupScores, Inventory, Scores, take_inventory
from mixprec.specs import LayerPrecision

CANDIDATES = (
    Candidate(name="mxfp8", precision=LayerPrecision.uniform("mxfp8")),
    Candidate(name="mxfp4", precision=LayerPrecision.uniform("mxfp4")),
)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(32, 20)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def model_and_inventory() -> tuple[Net, Inventory]:
    torch.manual_seed(0)
    model = Net()
    return model, take_inventory(model, loss, torch.randn(64, 32))


def scores(**losses: float) -> Scores:
    """Each block's ``up`` and ``down``, and the head; mxfp4 costs 10 times what mxfp8 does."""
    names = [f"blocks.{i}.{name}" for i in range(4) for name in ("up", "down")] + ["head"]
    groups = [
        GroupScores(
            name=name,
            sites=(name,),
            candidates={
                KEEP: CandidateScore(loss=0),
                "mxfp8": CandidateScore(loss=losses.get(name.replace(".", "_"), 1e-4)),
                "mxfp4": CandidateScore(loss=10 * losses.get(name.replace(".", "_"), 1e-4)),
            },
        )
        for name in names
    ]
    return Scores(loss=1.5, batches=2, groups=tuple(groups), seconds=3.0, step_seconds=0.5)
