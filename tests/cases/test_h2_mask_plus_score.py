"""The lowest fp16 value as a mask plus a negative score overflows to a row of minus infinity."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import mixprec
from mixprec.compat import apex_amp as amp
from mixprec.specs import Recipe

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


class Scored(nn.Module):
    """A layer's scores and a mask of the same shape and dtype."""

    def __init__(self, add: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(2))
        self.add = add

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(self.add(self.fc(x), mask), -1)


TWICE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    **SPELLINGS,
    "two masks": lambda s, m: s + m + torch.zeros_like(m),
    "in place": lambda s, m: s.add_(m),
}


@pytest.mark.parametrize("spelling", TWICE)
@pytest.mark.parametrize("how", ["O1", "O2", "O3", "compute", "fp32"])
def test_rows_of_every_residual_stream(spelling: str, how: str) -> None:
    model = Scored(TWICE[spelling])
    if how.startswith("O"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, opt_level=how, verbosity=0)
    else:
        residual = "compute" if how == "compute" else "fp32"
        mixprec.convert(model, Recipe(name="h2", compute_dtype="fp16", residual=residual))
    scores, mask = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]]), torch.tensor([[LOWEST, LOWEST], [LOWEST, 0.0]]).half()
    got = model(scores, mask)
    torch.testing.assert_close(got, torch.tensor([[0.99995, 4.54e-5], [0.0, 1.0]]), atol=1e-3, rtol=0)
    got[:, 0].sum().backward()
    assert torch.isfinite(model.fc.weight.grad).all()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch, while it traces
def test_a_compiled_row_is_finite() -> None:
    model = Scored(SPELLINGS["operator"])
    mixprec.convert(model, Recipe(name="h2", compute_dtype="fp16", residual="compute"))
    mask = torch.tensor([[LOWEST, LOWEST], [LOWEST, 0.0]]).half()
    got = torch.compile(model, backend="aot_eager", fullgraph=True)(torch.tensor([[-20.0, -30.0], [-20.0, 3.0]]), mask)
    assert got.isfinite().all()
    torch.testing.assert_close(got[1], torch.tensor([0.0, 1.0]))
