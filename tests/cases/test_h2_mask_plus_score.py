"""The lowest fp16 value as a mask plus a negative score overflows to a row of minus infinity."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import mixprec

LOWEST = torch.finfo(torch.float16).min


class Attention(nn.Module):
    """Adds the mask in one of the spellings that models use."""

    def __init__(self, add: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.add = add

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(self.add(scores, mask), -1)


SPELLINGS = {
    "operator": lambda s, m: s + m,
    "reversed": lambda s, m: m + s,
    "torch.add": torch.add,
    "method": lambda s, m: s.add(m),
    "difference": lambda s, m: s - (-m),
    "where": lambda s, m: torch.where(m < 0, s - 65504.0 * 2, s),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("trained", [True, False])
def test_rows(spelling: str, trained: bool) -> None:
    scores = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]]).half().requires_grad_(trained)
    mask = torch.tensor([[LOWEST, LOWEST], [LOWEST, 0.0]]).half()
    model = Attention(SPELLINGS[spelling])
    mixprec.convert(model, "fp16")
    got = model(scores, mask)
    torch.testing.assert_close(got, torch.tensor([[0.99995, 4.54e-5], [0.0, 1.0]]), atol=1e-3, rtol=0)
    if trained:
        got[:, 0].sum().backward()
        assert torch.isfinite(scores.grad).all()
