"""Attention whose products have casts, and ``nn.MultiheadAttention`` in terms of functions that rules reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .oracle import Oracle, assert_near
from .test_matmul_casts import BatchOracle

IDENTITY = LayerPrecision.uniform("fp32")


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, *mask, **self.options)


def rules(**precisions: LayerPrecision | None) -> Recipe:
    made = tuple(Rule(type=name, precision=precision) for name, precision in precisions.items())
    return Recipe(name="tried", rules=made)


def products_of(qk: LayerPrecision, pv: LayerPrecision, q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> list[Tensor]:
    """Output and gradients, product by product; the softmax between them in fp32."""
    first, second = BatchOracle(qk), BatchOracle(pv)
    second.oracle = Oracle(pv, first_stream=8)
    scale = q.shape[-1] ** -0.5
    scores = (first(q, "fprop_input") @ first(k, "fprop_weight").mT).float().requires_grad_()
    p = torch.softmax(scores * scale, -1)
    y = second(p, "fprop_input") @ second(v.mT, "fprop_weight").mT
    dp = (second(grad, "dgrad_grad_output") @ second(v, "dgrad_weight").mT).float()
    dv = second(p.mT, "wgrad_input") @ second(grad.mT, "wgrad_grad_output").mT
    (ds,) = torch.autograd.grad(p, scores, dp)
    dq = first(ds, "dgrad_grad_output") @ first(k.mT, "dgrad_weight").mT
    dk = (first(q.mT, "wgrad_input") @ first(ds.mT, "wgrad_grad_output").mT).mT
    return [y, dq, dk, dv]


CASTS = ["bf16", "e4m3[tensor]", "mxfp8 rceil", "nvfp4", "mxfp4 sr", "e4m3[1x16:fp32]", "int8[row]", "nvfp4 sr rht16"]


@pytest.mark.parametrize("cast", CASTS)
def test_both_products_of_attention(cast: str) -> None:
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(6, t, 24) for t in (9, 11, 11, 9))
    qk = pv = LayerPrecision.uniform(cast)
    if "rht" not in cast:
        pv = LayerPrecision.of(input="e4m3[tensor]", weight=cast, grad_output=cast)
    model = Attention()
    conversion = convert(model, rules(qk=qk, pv=pv), seed=0)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    with conversion.measured():
        y = model(*(t.unflatten(0, (2, 3)) for t in leaves))
        y.backward(grad.unflatten(0, (2, 3)))
    assert {row.site for row in conversion.audit().rows} == {"qk", "pv"}
    assert not conversion.audit().uncovered
    want = products_of(qk, pv, q, k, v, grad)
    for got, w in zip([y.detach().flatten(0, 1), *(t.grad for t in leaves)], want, strict=True):
        assert float((got - w).norm() / w.norm()) < 2e-3  # a sum in another order may round to the neighbour


@pytest.mark.parametrize("which", ["qk", "pv"])
def test_one_product_alone(which: str) -> None:
    q, k, v = (torch.randn(2, 3, 8, 16) for _ in range(3))
    model = Attention(is_causal=True)
    conversion = convert(model, rules(**{which: LayerPrecision.uniform("mxfp8")}))
    with conversion.measured():
        y = model(*(t.requires_grad_() for t in (q, k, v)))
        y.sum().backward()
    other = "pv" if which == "qk" else "qk"
    formats = {(row.site, row.format, row.engine) for row in conversion.audit().rows}
    assert formats == {(which, "mxfp8", "emulated"), ("<model>", "fp32", "native")}, other
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert 1e-4 < float((y - want).detach().norm() / want.detach().norm()) < 0.1


MASKS: dict[str, Callable[[], Tensor]] = {
    "boolean": lambda: torch.rand(2, 1, 9, 11) > 0.3,
    "additive": lambda: torch.randn(9, 11),
    "one row": lambda: torch.randn(2, 1, 1, 11),
}


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}, *MASKS], ids=str)
def test_attention_of_exact_casts_is_torchs(options: Any) -> None:
    torch.manual_seed(0)
    mask = [MASKS[options]()] if isinstance(options, str) else []
    options = {} if isinstance(options, str) else options
    heads = 2 if "enable_gqa" in options else 4
    q, k, v = torch.randn(2, 4, 9, 8), torch.randn(2, heads, 11, 8), torch.randn(2, heads, 11, 8)
    results = []
    for chosen in (recipe("fp32"), rules(qk=IDENTITY, pv=IDENTITY)):
        model = Attention(**options)
        convert(model, chosen)
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        y = model(*leaves, *mask)
        y.square().sum().backward()
        results.append([y.detach(), *(t.grad for t in leaves)])
    for got, want in zip(*reversed(results), strict=True):
        assert_near(got, want.double())


# --- nn.MultiheadAttention ---------------------------------------------------------------------------

LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "bias of keys": {"add_bias_kv": True},
    "zero keys": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
    "other widths": {"kdim": 10, "vdim": 6},
}
PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
CALLS: dict[str, dict[str, Any]] = {
    "weights": {},
    "no weights": {"need_weights": False},
    "each head": {"average_attn_weights": False},
    "padding": {"key_padding_mask": PADDING},
    "padding, no weights": {"key_padding_mask": PADDING, "need_weights": False},
    "causal": {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False},
    "mask": {"attn_mask": CAUSAL.float() * -3.0},
    "mask of heads": {"attn_mask": torch.randn(8, 5, 5), "key_padding_mask": PADDING.float() * -2.0},
}


class Module(nn.Module):
    """Self-attention or cross-attention."""

    def __init__(self, options: dict[str, Any], call: dict[str, Any], *, cross: bool, batched: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attn = nn.MultiheadAttention(8, 4, **options)
        self.call, self.cross, self.batched = call, cross, batched

    def forward(self, x_LNE: Tensor, k_LNE: Tensor, v_LNE: Tensor) -> tuple[Tensor, Tensor | None]:
        x, k, v = (x_LNE, k_LNE, v_LNE) if self.cross else (x_LNE,) * 3
        if not self.batched:
            x, k, v = x[:, 0], k[:, 0], v[:, 0]
        elif self.attn.batch_first:
            same = x is k
            x = x.transpose(0, 1)
            k, v = (x, x) if same else (k.transpose(0, 1), v.transpose(0, 1))
        return self.attn(x, k, v, **self.call)


def attention_results(chosen: Recipe | None, **options: Any) -> list[Tensor]:
    model = Module(**options)
    if chosen is not None:
        convert(model, chosen)
    generator = torch.Generator().manual_seed(1)
    kdim, vdim = model.attn.kdim, model.attn.vdim
    leaves = [torch.randn(5, 2, n, generator=generator).requires_grad_() for n in (8, kdim, vdim)]
    y, weights = model(*leaves)
    loss = y.square().sum() if weights is None else y.square().sum() + weights.square().sum()
    loss.backward()
    found = [
        y,
        *([] if weights is None else [weights]),
        *(p.grad for p in model.parameters()),
        *(t.grad for t in leaves),
    ]
    return [t.detach() for t in found if t is not None]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("cross", [False, True])
def test_multihead_attention_is_torchs_where_casts_are_exact(layer: str, call: str, cross: bool) -> None:
    if layer == "other widths" and not cross:
        return
    chosen = Recipe(name="exact", rules=tuple(Rule(type=t, precision=IDENTITY) for t in ("Linear", "qk", "pv")))
    given = {"options": LAYERS[layer], "call": CALLS[call], "cross": cross, "batched": True}
    for got, want in zip(attention_results(chosen, **given), attention_results(None, **given), strict=True):
        assert_near(got, want.double(), 1e-5)


@pytest.mark.parametrize("need_weights", [True, False])
def test_unbatched_multihead_attention(need_weights: bool) -> None:
    chosen = Recipe(name="exact", rules=tuple(Rule(type=t, precision=IDENTITY) for t in ("Linear", "qk", "pv")))
    given = {"options": {}, "call": {"need_weights": need_weights}, "cross": True, "batched": False}
    for got, want in zip(attention_results(chosen, **given), attention_results(None, **given), strict=True):
        assert_near(got, want.double(), 1e-5)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_every_product_of_multihead_attention_has_a_site(cross: bool, need_weights: bool) -> None:
    low, attention = LayerPrecision.uniform("mxfp8"), LayerPrecision.uniform("e4m3[tensor]")
    chosen = Recipe(
        name="all", rules=(Rule(precision=low), Rule(type="qk", precision=attention), Rule(type="pv", precision=low))
    )
    model = Module({}, {"need_weights": need_weights}, cross=cross, batched=True)
    conversion = convert(model, chosen)
    leaves = [torch.randn(5, 2, 8).requires_grad_() for _ in range(3)]
    with conversion.measured():
        y, _ = model(*leaves)
        y.sum().backward()
    rows = conversion.audit().rows
    assert {(row.site, row.format) for row in rows} == {
        ("attn.in_proj", "mxfp8"), ("attn.out_proj", "mxfp8"), ("attn.qk", "e4m3[tensor]"), ("attn.pv", "mxfp8"),
    }  # fmt: skip
    flops = {site: sum(row.flops for row in rows if row.site == site) for site in {row.site for row in rows}}
    assert flops == {
        "attn.in_proj": 3 * 2 * 10 * 8 * 24, "attn.out_proj": 3 * 2 * 10 * 8 * 8,
        "attn.qk": 3 * 2 * 8 * 5 * 5 * 2, "attn.pv": 3 * 2 * 8 * 5 * 5 * 2,
    }  # fmt: skip


def test_projections_are_linear_layers() -> None:
    torch.manual_seed(0)
    precision = LayerPrecision.uniform("mxfp4")
    model = Module({"bias": False}, {"need_weights": False}, cross=False, batched=True)
    w_in, w_out = model.attn.in_proj_weight.detach().clone(), model.attn.out_proj.weight.detach().clone()
    convert(model, Recipe(name="mx", rules=(Rule(precision=precision),)))
    x = torch.randn(5, 2, 8)
    leaf = x.clone().requires_grad_()
    y, _ = model(leaf, leaf, leaf)
    y.backward(grad := torch.randn_like(y))
    oracle = Oracle(precision)

    def project(t: Tensor, w: Tensor) -> Tensor:
        return oracle.values(t.flatten(0, 1), "fprop_input") @ oracle.values(w, "fprop_weight").t()

    qkv = project(x, w_in).float().view(5, 2, 24)
    heads = [t.unflatten(-1, (4, 2)).permute(1, 2, 0, 3) for t in qkv.chunk(3, -1)]
    inner = F.scaled_dot_product_attention(*heads).permute(2, 0, 1, 3).flatten(2)
    want = project(inner, w_out).view(5, 2, 8)
    assert float((y.detach() - want).norm() / want.norm()) < 1e-3
    dw = (
        oracle.transposed_values(grad.flatten(0, 1), "wgrad_grad_output")
        @ oracle.transposed_values(inner.flatten(0, 1), "wgrad_input").t()
    )
    assert float((model.attn.out_proj.weight.grad - dw).norm() / dw.norm()) < 1e-3


def test_dropout_of_attention_is_that_of_training_alone() -> None:
    model = Module({"dropout": 0.5}, {}, cross=False, batched=True)
    convert(model, Recipe(name="mx", rules=(Rule(precision=LayerPrecision.uniform("mxfp8")),)))
    x = torch.randn(5, 2, 8)
    assert not torch.equal(model(x, x, x)[0], model(x, x, x)[0])
    model.eval()
    assert torch.equal(model(x, x, x)[0], model(x, x, x)[0])
