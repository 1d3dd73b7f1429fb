"""Parameters that no training makes: one element far beyond all others, or all of them huge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...nn import ROOT
from ._range import Range, is_measured, plain, range_of

#: A flipped top bit of the exponent multiplies by 2^128 (fp32, bf16) or 2^16 (fp16): how far beyond the second largest
#: magnitude, and how large, an element must be to be taken for one.
FLIP_RATIO, FLIP_LEAST = 2.0**12, 2.0**8
#: Magnitude from which weights are taken for diverged.
DIVERGED_LEAST = 1e4


@dataclass(frozen=True)
class OddWeight:
    """A parameter that is not as training makes them.

    Attributes:
        name: of the parameter.
        values: of it.
        is_flip: whether a single element is at fault.
        index: of that element, flat.
    """

    name: str
    values: Range
    is_flip: bool
    index: int

    @property
    def site(self) -> str:
        """The path of the module that owns it."""
        return self.name.rpartition(".")[0] or ROOT

    @property
    def operand(self) -> str:
        """Its name there."""
        return self.name.rpartition(".")[2]


@torch.no_grad()
def odd_weights(model: nn.Module) -> list[OddWeight]:
    """The odd parameters of a model, flips first."""
    found = [odd for name, p in model.named_parameters() if is_measured(p) for odd in _odd(name, p)]
    return sorted(found, key=lambda odd: not odd.is_flip)


def _odd(name: str, p: Tensor) -> Iterable[OddWeight]:
    magnitudes = plain(p).abs().reshape(-1).float()
    if magnitudes.numel() == 0:
        return  # this rank has none of it
    worst = int(torch.where(magnitudes.isnan(), torch.inf, magnitudes).argmax())
    largest = magnitudes[worst].item()
    if largest >= FLIP_LEAST or largest != largest:
        rest = torch.cat([magnitudes[:worst], magnitudes[worst + 1 :]])
        second = rest.max().item() if rest.numel() else largest
        is_flip = rest.numel() > 0 and second < torch.inf and not largest < second * FLIP_RATIO
        if is_flip or largest >= DIVERGED_LEAST or largest != largest:
            yield OddWeight(name, range_of(p), is_flip, worst)
