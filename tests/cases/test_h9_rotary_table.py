"""A rotary table, a complex buffer: conversion leaves what counts positions in full precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import mixprec

OUTER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "outer": torch.outer,
    "broadcast": lambda t, f: t[:, None] * f[None, :],
    "einsum": lambda t, f: torch.einsum("i,j->ij", t, f),
    "matmul": lambda t, f: t[:, None] @ f[None, :],
    "batched": lambda t, f: (f[None, :, None].float() @ t[None, None, :].float()).transpose(1, 2)[0],
}


class Rotary(nn.Module):
    """The table of cosines, next to a layer that is converted and a complex buffer."""

    def __init__(self, outer: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / 1e4 ** (torch.arange(0, 8, 2).float() / 8))
        self.register_buffer("phases", torch.polar(torch.ones(2), torch.tensor([1.0, 2.0])))
        self.fc = nn.Linear(4, 4)
        self.outer = outer

    def forward(self, n: int) -> tuple[Tensor, Tensor]:
        table = torch.cos(self.outer(torch.arange(n).type_as(self.inv_freq), self.inv_freq))
        return table, self.fc(table)


@pytest.mark.parametrize("spelling", OUTER)
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_table(name: str, spelling: str) -> None:
    model = Rotary(OUTER[spelling])
    exact = torch.cos(torch.arange(4096).double()[:, None] * model.inv_freq.double())
    imaginary = model.phases.imag.clone()
    conversion = mixprec.convert(model, name)
    table, _ = model(4096)
    assert float((table.double() - exact).abs().max()) <= 0.0025
    assert model.inv_freq.dtype == torch.float32
    assert model.phases.dtype == torch.complex64
    assert torch.equal(model.phases.imag, imaginary)
    assert conversion.audit().kept == {"inv_freq": "float32", "phases": "complex64"}
