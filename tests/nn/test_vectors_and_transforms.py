"""Matrices times vectors have the casts of ``W @ x``; ``torch.func``'s transforms are refused under every recipe."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

LOW = Recipe(name="low", rules=(Rule(match="*", precision=LayerPrecision.uniform("mxfp8")),))
PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "torch.mv": torch.mv,
    "Tensor.mv": lambda w, v: w.mv(v),
    "torch.addmv": lambda w, v: torch.addmv(torch.zeros(w.shape[0]), w, v),
    "Tensor.addmv": lambda w, v: torch.zeros(w.shape[0]).addmv(w, v),
    "scaled addmv": lambda w, v: torch.addmv(torch.ones(w.shape[0]), w, v, beta=0, alpha=1),
}


class Keeps(nn.Module):
    """Keeps a weight and multiplies by it in some way."""

    def __init__(self, call: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.call = nn.Parameter(torch.randn(48, 32)), call

    def forward(self, v: Tensor) -> Tensor:
        return self.call(self.weight, v)


@pytest.mark.parametrize("spelling", PRODUCTS)
@pytest.mark.parametrize("name", ["low", "mxfp8", "bf16"])
def test_a_matrix_times_a_vector_is_cast_as_the_operator_casts_it(name: str, spelling: str) -> None:
    results: list[tuple[Tensor, ...]] = []
    for call in (PRODUCTS[spelling], lambda w, v: w @ v):
        model, v = Keeps(call), torch.linspace(-1, 1, 32).requires_grad_()
        conversion = convert(model, LOW if name == "low" else recipe(name, engine="emulated"))
        with conversion.measured():
            y = model(v)
            y.square().sum().backward()
        rows = conversion.audit().rows
        assert {row.gemm for row in rows} == {"fprop", "dgrad", "wgrad"}
        assert all(row.covered and row.format.startswith("bf16" if name == "bf16" else "mxfp8") for row in rows)
        assert model.weight.grad is not None
        assert v.grad is not None
        results.append((y.detach(), model.weight.grad, v.grad))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_spectral_norm_is_found_in_fp32() -> None:
    torch.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(32, 32))
    convert(nn.Sequential(layer), LOW)
    layer.eval()
    u, v = layer.parametrizations.weight[0]._u, layer.parametrizations.weight[0]._v
    original = layer.parametrizations.weight.original
    assert torch.allclose(layer.weight, original / torch.dot(u, original @ v), rtol=1e-6, atol=0)


TRANSFORMED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a weight's examples": lambda w, v: torch.vmap(lambda row: row @ w.t())(v),
    "a weight's parts": lambda w, v: torch.vmap(lambda part: v @ part)(w.reshape(2, 32, 24)),
    "mv": lambda w, v: torch.vmap(lambda row: torch.mv(w, row))(v),
    "activations": lambda w, v: torch.vmap(lambda row: row[None] @ row[:, None])(v),
    "bmm": lambda w, v: torch.vmap(lambda row: torch.bmm(row[None, None], row[None, :, None]))(v),
    "einsum": lambda w, v: torch.vmap(lambda row: torch.einsum("ij,j->i", w, row))(v),
    "linear": lambda w, v: torch.vmap(lambda row: F.linear(row, w))(v),
    "attention": lambda w, v: torch.vmap(lambda row: F.scaled_dot_product_attention(*[row[None]] * 3))(v),
    "convolution": lambda w, v: torch.vmap(lambda row: F.conv1d(row[:, None], w[..., None]))(v),
}


@pytest.mark.parametrize("call", TRANSFORMED)
@pytest.mark.parametrize("name", ["low", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"])
def test_a_transform_inside_a_model_is_refused(name: str, call: str) -> None:
    model = Keeps(TRANSFORMED[call])
    convert(model, LOW if name == "low" else recipe(name, engine="emulated"))
    with pytest.raises(RuntimeError, match=r"was called under torch\.func \(vmap.*docs/support\.md"):
        model(torch.randn(3, 32))
