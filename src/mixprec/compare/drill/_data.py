"""Faults of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from mixprec.training import Session

from ._fault import Clock, Fault


@final
@dataclass(frozen=True, kw_only=True)
class PoisonedBatches(Fault):
    """Ten batches of noise.

    Ten times as wide as the data where they are numbers, and any of the data's values where they are indices or labels.
    """

    name: ClassVar[str] = "poisoned-batches"
    title: ClassVar[str] = "10 poisoned batches"
    within: ClassVar[int | None] = 3
    clock: ClassVar[Clock] = "batches"

    width: float = 10.0
    batches: int = 10

    def refusal(self, session: Session, batch: Any) -> str:
        """A batch without a tensor of numbers that this reaches stays as it is."""
        del session
        if any(_is_noisy(leaf) for leaf in pytree.tree_leaves(batch)):
            return ""
        return (
            f"no tensor of numbers was found in a batch ({type(batch).__name__}): expected tensors in tuples, lists "
            "and dicts, or a class that torch.utils._pytree knows"
        )

    def batch(self, number: int, batch: Any) -> Any:
        """Poisoned or as it was; the batch itself is left as it is."""
        if not self.at <= number < self.at + self.batches:
            return batch
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        return pytree.tree_map(lambda leaf: self._noise(leaf, draw), batch)

    def _noise(self, leaf: Any, draw: torch.Generator) -> Any:
        if not _is_noisy(leaf):
            return leaf
        if leaf.is_floating_point():
            noise = torch.randn(leaf.shape, generator=draw)
            spread = leaf.float().std().item() if leaf.numel() > 1 else 1.0
            return (noise * self.width * (spread or 1.0)).to(leaf)
        low, high = int(leaf.min()), int(leaf.max())
        return torch.randint(low, high + 1, leaf.shape, generator=draw).to(leaf)


def _is_noisy(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.numel() > 0 and leaf.dtype != torch.bool and not leaf.is_complex()
