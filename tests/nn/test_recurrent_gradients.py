"""Weight gradients of what has no casts: those of fp32 products of the rounded operands, not rounded themselves."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mixprec

_LAYERS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "LSTM": (nn.LSTM, (6, 5)),
    "GRU": (nn.GRU, (6, 5)),
    "RNN": (nn.RNN, (6, 5)),
    "LSTMCell": (nn.LSTMCell, (6, 5)),
    "GRUCell": (nn.GRUCell, (6, 5)),
    "Bilinear": (nn.Bilinear, (6, 6, 5)),
}
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Around(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        kind, sizes = _LAYERS[name]
        self.inner: Any = kind(*sizes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x, x) if isinstance(self.inner, nn.Bilinear) else self.inner(x)
        return y[0] if isinstance(y, tuple) else y


def _gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    model(x).float().sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("recipe", ["bf16", "fp16"])
def test_weight_gradients_are_not_rounded(name: str, recipe: str) -> None:
    torch.manual_seed(0)
    dtype = _DTYPES[recipe]
    model = Around(name)
    plain = copy.deepcopy(model)
    x = torch.randn(7, 6)
    with torch.no_grad():
        for p in plain.parameters():
            p.copy_(p.to(dtype))
    mixprec.convert(model, mixprec.recipe(recipe, engine="emulated"))
    want, got = _gradients(plain, x.to(dtype).float()), _gradients(model, x)
    assert got.keys() == want.keys()
    for key, gradient in got.items():
        assert torch.equal(gradient, want[key]), key
    assert any(not torch.equal(g, g.to(dtype).float()) for g in got.values())
