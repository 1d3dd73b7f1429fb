"""Small models with their losses and batches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.planner import Candidate
from mixprec.specs import LayerPrecision

Batch = tuple[Tensor, Tensor]
MXFP4 = Candidate(name="mxfp4", precision=LayerPrecision.uniform("mxfp4"))
MXFP8 = Candidate(name="mxfp8", precision=LayerPrecision.uniform("mxfp8 rceil"))
EXACT = Candidate(name="exact", precision=LayerPrecision.uniform("fp32"))
BOTH = (MXFP8, MXFP4)


def cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over all targets."""
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


def vectors(count: int = 64, features: int = 32, classes: int = 10, seed: int = 0) -> Batch:
    """Inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, features, generator=generator),
        torch.randint(classes, (count,), generator=generator),
    )


def images(count: int = 16, classes: int = 10, seed: int = 0) -> Batch:
    """[count, 3, 8, 8] and targets."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 8, 8, generator=generator), torch.randint(classes, (count,), generator=generator)


class Attending(nn.Module):
    """One block: separate projections that read one input, attention, and a head."""

    def __init__(self, width: int = 32, heads: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        split = [p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v)]
        attended = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.head(x + self.o(attended.transpose(1, 2).flatten(2)))


def sequences(count: int = 8, length: int = 16, width: int = 32, classes: int = 10, seed: int = 0) -> Batch:
    """[count, length, width] and a target for each place."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(count, length, width, generator=generator),
        torch.randint(classes, (count, length), generator=generator),
    )


class Pictures(nn.Module):
    """Two convolutions with batch norm and dropout, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.drop, self.head = nn.Conv2d(16, 32, 3, stride=2), nn.Dropout(0.5), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu_(self.norm(self.first(x)))
        return self.head(self.drop(F.relu(self.second(hidden)).mean((2, 3))))


def of(scores: object, group: str, candidate: str) -> object:
    """The score of a candidate in a group."""
    groups = {g.name: g for g in scores.groups}  # pyright: ignore[reportAttributeAccessIssue]
    return groups[group].candidates[candidate]
