"""Operands are seen before their casts: the right values, under the right names, and only while somebody watches."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from mixprec import kernels
from mixprec.nn import convert
from mixprec.nn._site import SITE

RECIPES = ("bf16", "fp16", "fp8", "fp8-delayed", "mxfp8", "nvfp4", "mxfp4")


class Watch:
    """Copies what it is shown."""

    def __init__(self):
        self.seen = []

    def operand(self, seen):
        self.seen.append((seen, seen.x.detach().clone()))

    def of(self, site, role, gemm=None):
        return [x for s, x in self.seen if s.site == site and s.role == role and gemm in (None, s.gemm)]


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (q, k, v))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 64, 3, padding=1)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(64, 16)

    def forward(self, x):
        return self.head(self.blocks(self.conv(x).transpose(1, 2)))


def build(recipe, seed=0):
    torch.manual_seed(seed)
    model = Model()
    return model, convert(model, recipe)


def run(model, x):
    model.zero_grad()
    y = model(x)
    y.square().mean().backward()
    return y, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("recipe", RECIPES)
def test_watching_changes_nothing(recipe):
    x = torch.randn(4, 8, 32)
    plain = run(build(recipe)[0], x)
    model, conversion = build(recipe)
    with conversion.watched_by(Watch()):
        watched = run(model, x)
    assert torch.equal(plain[0], watched[0])
    assert all(torch.equal(a, b) for a, b in zip(plain[1], watched[1], strict=True))


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_layer_shows_its_three_roles(recipe):
    model, conversion = build(recipe)
    watch = Watch()
    with conversion.watched_by(watch):
        run(model, torch.randn(4, 8, 32))
    layers = [name for name, module in model.named_modules() if SITE in module.__dict__]
    assert {"blocks.0.qkv", "blocks.1.out"} & set(layers)
    told = {(s.site, s.role) for s, _ in watch.seen}
    assert told >= {(site, role) for site in layers for role in ("input", "weight", "grad_output")}
    if conversion.state.is_16bit:
        assert told >= {("blocks.0.qk", "input"), ("blocks.0.qk", "weight"), ("blocks.0.pv", "weight")}
    assert {s.gemm for s, _ in watch.seen} <= {"fprop", "dgrad", "wgrad"}


def test_what_is_seen_of_a_layer_is_what_it_multiplies():
    torch.manual_seed(0)
    model = nn.Linear(64, 32)
    conversion, watch = convert(nn.Sequential(model), "mxfp8"), Watch()
    x = torch.randn(16, 64, requires_grad=True)
    with conversion.watched_by(watch):
        y = conversion.model(x)
        g = torch.randn_like(y)
        y.backward(g)
    dtype = conversion.state.compute_dtype
    (seen, value), *_ = [(s, v) for s, v in watch.seen if s.role == "input"]
    assert (seen.site, seen.gemm, seen.axis) == ("0", "fprop", 1)
    assert torch.equal(value, x.detach().to(dtype))
    assert torch.equal(watch.of("0", "weight", "fprop")[0], model.weight.detach())
    assert torch.equal(watch.of("0", "grad_output", "dgrad")[0], g.to(dtype))


def test_random_bits_and_streams_are_those_of_the_cast():
    """Rounding what was seen, as it was told, gives the operand that a linear map multiplies."""
    torch.manual_seed(0)
    conversion, watch = convert(nn.Sequential(nn.Linear(64, 64, bias=False)), "mxfp4"), Watch()
    x = torch.eye(64)
    with conversion.watched_by(watch):
        y = conversion.model(x)
    seen = {s.role: (s, v) for s, v in watch.seen if s.gemm == "fprop"}
    carriers = []
    for role in ("input", "weight"):
        s, v = seen[role]
        carrier, outer = kernels.scaled(
            v, s.cast, axis=s.axis, random=s.random, stream=s.stream, sign_stream=s.sign_stream
        )
        carriers.append(carrier * outer)
    expected = (carriers[0] @ carriers[1].T).to(conversion.state.compute_dtype).float()
    assert torch.equal(y, expected)


def test_a_weight_that_is_served_from_its_codes_is_seen_too():
    conversion = convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8")
    for p in conversion.model.parameters():
        p.requires_grad_(False)
    x = torch.randn(8, 64, requires_grad=True)
    for _ in range(3):
        conversion.model(x).sum().backward()
    watch = Watch()
    with conversion.watched_by(watch):
        conversion.model(x).sum().backward()
    assert len(watch.of("0", "weight", "fprop")) == 1
    assert len(watch.of("0", "weight", "dgrad")) == 1


def test_experts_are_seen():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 64, 32) / 8)

        def forward(self, x):
            return F.grouped_mm(x, self.weight, offs=torch.tensor([5, 16], dtype=torch.int32))

    conversion, watch = convert(nn.Sequential(Experts()), "mxfp8"), Watch()
    with conversion.watched_by(watch):
        conversion.model(torch.randn(16, 64, requires_grad=True)).sum().backward()
    assert {(s.site, s.role) for s, _ in watch.seen} >= {("0", "input"), ("0", "weight"), ("0", "grad_output")}


def test_recomputation_shows_the_forward_operands_again_and_changes_nothing():
    torch.manual_seed(0)
    layer = nn.Linear(64, 64)
    conversion, watch = convert(nn.Sequential(layer), "mxfp4"), Watch()
    x = torch.randn(8, 64, requires_grad=True)
    with conversion.watched_by(watch):
        checkpoint(conversion.model, x, use_reentrant=False).sum().backward()
    first, again = watch.of("0", "input", "fprop")
    assert torch.equal(first, again)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_code_shows_nothing_and_is_not_compiled_anew():
    conversion, watch = convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8"), Watch()
    compiled = torch.compile(conversion.model, backend="aot_eager", fullgraph=True)
    x = torch.randn(8, 64)
    plain = compiled(x)
    with conversion.watched_by(watch), torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(x), plain)
    assert watch.seen == []


def test_a_copy_is_not_watched():
    conversion, watch = convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8"), Watch()
    with conversion.watched_by(watch):
        twin = copy.deepcopy(conversion.model)
        twin(torch.randn(8, 64))
    assert watch.seen == []
