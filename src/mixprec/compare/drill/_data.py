"""Faults of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ._fault import Fault


@final
@dataclass(frozen=True, kw_only=True)
class PoisonedBatches(Fault):
    """Ten batches of noise.

    Ten times as wide as the data where they are numbers, and any of the data's values where they are indices or labels.
    """

    name: ClassVar[str] = "poisoned-batches"
    title: ClassVar[str] = "10 poisoned batches"
    within: ClassVar[int | None] = 3

    width: float = 10.0
    batches: int = 10

    def batch(self, number: int, batch: Any) -> Any:
        """Poisoned or as it was; the batch itself is left as it is."""
        if not self.at <= number < self.at + self.batches:
            return batch
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        return pytree.tree_map(lambda leaf: self._noise(leaf, draw), batch)

    def _noise(self, leaf: Any, draw: torch.Generator) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.numel() or leaf.dtype == torch.bool:
            return leaf
        if leaf.is_floating_point():
            noise = torch.randn(leaf.shape, generator=draw)
            spread = leaf.float().std().item() if leaf.numel() > 1 else 1.0
            return (noise * self.width * (spread or 1.0)).to(leaf)
        low, high = int(leaf.min()), int(leaf.max())
        return torch.randint(low, high + 1, leaf.shape, generator=draw).to(leaf)
