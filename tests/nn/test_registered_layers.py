"""Modules of registered types: their products, and the functions that their forward calls, under rules."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.nn import AttentionArguments, convert, register_layer
from mixprec.nn._site_products import SiteProducts
from mixprec.specs import LayerPrecision, Recipe, Rule


class CallsAttention(nn.Module):
    """A projection and attention, which its registered forward calls as torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        q = F.linear(x, self.weight)
        return F.scaled_dot_product_attention(q, q, q)


class AsksForAttention(CallsAttention):
    """The same through the site's products."""


@register_layer(CallsAttention, features=lambda m: tuple(m.weight.shape))
def _calls(module: CallsAttention, products: SiteProducts, x: Tensor) -> Tensor:
    q = products.linear(x, module.weight)
    return F.scaled_dot_product_attention(q, q, q)


@register_layer(AsksForAttention)
def _asks(module: AsksForAttention, products: SiteProducts, x: Tensor) -> Tensor:
    q = products.linear(x, module.weight)
    return products.attention(q, q, q, AttentionArguments())


class Model(nn.Module):
    def __init__(self, kind: type[nn.Module], reentrant: bool | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.layers, self.reentrant = nn.Linear(16, 16), nn.ModuleList([kind(), kind()]), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x) if self.reentrant is None else checkpoint(layer, x, use_reentrant=self.reentrant)  # type: ignore[assignment]
        return x


def rules(compute_dtype: str, cast: str = "mxfp4 sr", where: str = "*") -> Recipe:
    low = LayerPrecision.uniform(cast)
    return Recipe(
        name="low",
        compute_dtype=compute_dtype,  # type: ignore[arg-type]
        engine="emulated",
        rules=(
            Rule(match=where, type="qk", precision=low),
            Rule(match=where, type="pv", precision=LayerPrecision.uniform("mxfp8")),
            Rule(precision=LayerPrecision.uniform("e4m3[tensor]")),
        ),
    )


def trained(model: nn.Module) -> list[Tensor]:
    model.zero_grad()
    y = model(torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1)))
    y.square().mean().backward()
    return [y.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", [CallsAttention, AsksForAttention])
@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_attention_is_under_rules_by_the_modules_own_path(kind: type[nn.Module], compute_dtype: str) -> None:
    model = Model(kind)
    conversion = convert(model, rules(compute_dtype, where="layers.1"))
    with conversion.measured():
        trained(model)
    formats = {row.site: row.format for row in conversion.audit().rows if row.gemm == "fprop"}
    assert formats["layers.1.qk"] == "mxfp4 sr"
    assert formats["layers.1.pv"] == "mxfp8"
    assert formats["layers.1"] == "e4m3[tensor]"
    assert "layers.0.qk" not in formats
    assert not conversion.audit().uncovered


@pytest.mark.parametrize("kind", [CallsAttention, AsksForAttention])
def test_a_registered_root(kind: type[nn.Module]) -> None:
    model = kind()
    conversion = convert(model, rules("fp32"))
    with conversion.measured():
        trained(model)
    assert {"qk", "pv", "<model>"} == {row.site for row in conversion.audit().rows}


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("kind", [CallsAttention, AsksForAttention])
@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_recomputed(kind: type[nn.Module], compute_dtype: str, reentrant: bool) -> None:
    plain, recomputed = Model(kind), Model(kind, reentrant)
    for model in (plain, recomputed):
        convert(model, rules(compute_dtype))
    for _ in range(2):
        assert equal(trained(plain), trained(recomputed))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copied_and_restored(again: Callable[[nn.Module], nn.Module]) -> None:
    model, torchs = Model(CallsAttention), Model(CallsAttention)
    conversion = convert(model, rules("fp32"))
    assert equal(trained(again(model)), trained(model))
    conversion.restore()
    assert type(model.layers[0]) is CallsAttention
    assert equal(trained(model), trained(torchs))


def test_a_delayed_history_for_each() -> None:
    model = Model(CallsAttention)
    conversion = convert(model, rules("fp32", "e4m3[tensor] delayed"))
    names = set(conversion.histories())
    assert {"layers.0.qk (input) e4m3[tensor] delayed", "layers.1.qk (weight) e4m3[tensor] delayed"} <= names
