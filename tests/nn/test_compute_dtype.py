"""The rules of a 16-bit compute dtype for functions that a model calls itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import recipe


class Calls(nn.Module):
    """A model that is one function; what the function saw stays in ``seen``."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.function = function
        self.seen: Tensor | None = None

    def forward(self, *inputs: Tensor) -> Tensor:
        self.seen = self.function(*inputs)
        return self.seen


def call(function: Callable[..., Tensor], *inputs: Tensor, name: str = "bf16", **options: object) -> Tensor:
    """What ``function`` gives inside the region of a recipe."""
    model = Calls(function)
    convert(model, recipe(name, engine="emulated", **options))
    model(*inputs)
    assert model.seen is not None
    return model.seen


HALF = torch.randn(4, 6).bfloat16()


@pytest.mark.parametrize(
    "function",
    [torch.exp, torch.sigmoid, F.sigmoid, Tensor.sigmoid, lambda x: x.softmax(-1), lambda x: F.softmax(x, -1),
     lambda x: x**2,
     lambda x: x.pow(2), torch.log, lambda x: x.sum(), lambda x: x.mean(), lambda x: x.norm(), lambda x: F.normalize(x),
     lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.long)), lambda x: x.cumsum(0), F.softplus,
     lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x))],
)  # fmt: skip
def test_fp32_operations_stay_fp32(function: Callable[[Tensor], Tensor]) -> None:
    got = call(function, HALF)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, function(HALF.float()), equal_nan=True)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.matmul, [(3, 5), (5, 7)]),
        (torch.matmul, [(2, 3, 4, 5), (3, 5, 7)]),
        (torch.matmul, [(5,), (5, 7)]),
        (torch.matmul, [(4, 5), (5,)]),
        (torch.matmul, [(5,), (5,)]),
        (lambda a, b: a @ b, [(4, 5), (5, 6)]),
        (torch.bmm, [(3, 4, 5), (3, 5, 6)]),
        (F.linear, [(2, 3, 5), (7, 5)]),
        (F.conv2d, [(2, 3, 8, 8), (4, 3, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, padding="same", dilation=2), [(2, 3, 8, 8), (4, 3, 2, 3)]),
        (lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=3), [(2, 3, 8, 8), (6, 1, 3, 3)]),
        (F.conv1d, [(2, 3, 8), (4, 3, 3)]),
        (F.conv3d, [(1, 2, 5, 5, 5), (3, 2, 2, 2, 2)]),
        (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 3, 5, 5), (3, 4, 3, 3)]),
        (lambda a, b: torch.einsum("bij,bjk->bik", a, b), [(2, 3, 4), (2, 4, 5)]),
        (lambda a, b: torch.einsum("bhqd,bkhd->bhqk", a, b), [(2, 3, 4, 5), (2, 6, 3, 5)]),
        (lambda a, b: torch.einsum("ij,kj->ki", a, b), [(3, 4), (5, 4)]),
        (lambda a, b: torch.addmm(torch.ones(6), a, b), [(4, 5), (5, 6)]),
        (lambda a, b: torch.baddbmm(torch.ones(1), a, b, beta=0.5, alpha=2.0), [(2, 4, 5), (2, 5, 6)]),
    ],
)
@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_products_take_16_bit_operands(
    function: Callable[..., Tensor], shapes: list[tuple[int, ...]], name: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(s, requires_grad=True) for s in shapes]
    rounded = [t.detach().to(dtype).double().requires_grad_() for t in inputs]
    got = call(function, *inputs, name=name)
    want = function(*rounded) if "ones" not in getattr(getattr(function, "__code__", None), "co_names", ()) else None
    assert got.dtype == dtype
    if want is None:
        return
    step = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-11
    torch.testing.assert_close(got.double(), want, rtol=2 * step, atol=1e-6)
    grad = torch.randn(want.shape).to(dtype)
    gradients = torch.autograd.grad(got, inputs, grad)
    for g, w in zip(gradients, torch.autograd.grad(want, rounded, grad.double()), strict=True):
        assert g.dtype == torch.float32
        torch.testing.assert_close(g.double(), w, rtol=2 * step, atol=step * float(w.abs().max()))


@pytest.mark.parametrize(
    "function",
    [lambda t, f: torch.einsum("i,j->ij", t, f), torch.outer, lambda t, f: t[:, None] @ f[None, :],
     lambda t, f: torch.matmul(f[:, None], t[None, :]).t()],
)  # fmt: skip
def test_outer_products_keep_positions(function: Callable[..., Tensor]) -> None:
    positions, frequencies = torch.arange(4096.0), 1.0 / 10000.0 ** (torch.arange(0, 8, 2) / 8)
    assert torch.equal(call(function, positions, frequencies), positions[:, None] * frequencies)


def attention(q: Tensor, k: Tensor, v: Tensor, **options: object) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, **options)


MASK = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) > 0.3


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"attn_mask": MASK | torch.eye(6, dtype=torch.bool)}, {"attn_mask": torch.randn(6, 6)},
     {"scale": 0.3}, {"enable_gqa": True}],
)  # fmt: skip
@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_attention_is_exact_about_its_operands(options: dict[str, object], name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    heads = 2 if options.get("enable_gqa") else 4
    inputs = [torch.randn(2, h, 6, 8, requires_grad=True) for h in (4, heads, heads)]
    got = call(lambda *t: attention(*t, **options), *inputs, name=name)
    assert got.dtype == dtype
    rounded = [t.detach().to(dtype).double().requires_grad_() for t in inputs]
    wide = {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in options.items()}
    want = attention(*rounded, **wide)
    step = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-11
    torch.testing.assert_close(got.double(), want, rtol=2 * step, atol=step)
    grad = torch.randn(want.shape).to(dtype)
    for g, w in zip(
        torch.autograd.grad(got, inputs, grad), torch.autograd.grad(want, rounded, grad.double()), strict=True
    ):
        torch.testing.assert_close(g.double(), w, rtol=4 * step, atol=8 * step * float(w.abs().max()))


def test_attention_with_dropout_and_odd_shapes_runs() -> None:
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 5)
    assert call(lambda *t: attention(*t), q, k, v).dtype == torch.bfloat16
    assert call(lambda *t: attention(*t, dropout_p=0.5), q, k, k).dtype == torch.bfloat16
    assert call(lambda *t: attention(*t), q[0, 0], k[0, 0], k[0, 0]).shape == (6, 8)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention_module(batch_first: bool, need_weights: bool) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=batch_first, bias=True, add_bias_kv=need_weights)
    x = torch.randn(3, 3, 16)
    padding = torch.tensor([[False, False, True]] * 3)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    for options in ({}, {"key_padding_mask": padding}, {"attn_mask": mask}, {"attn_mask": mask, "is_causal": True}):
        want, want_weights = model(x, x, x, need_weights=need_weights, **options)
        conversion = convert(model, recipe("bf16", engine="emulated"))
        with conversion.measured():
            got, weights = model(x, x, x, need_weights=need_weights, **options)
        torch.testing.assert_close(got, want, rtol=0.05, atol=0.02)
        assert (weights is None) == (want_weights is None)
        if weights is not None:
            torch.testing.assert_close(weights, want_weights, rtol=0.05, atol=0.02)
        assert not conversion.audit().uncovered
        conversion.restore()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = kind(8, 12, num_layers=2, bidirectional=True)
    x = torch.randn(5, 3, 8)
    want, _ = model(x)
    convert(model, recipe("bf16"))
    got, _ = model(x)
    torch.testing.assert_close(got, want, rtol=0.05, atol=0.02)
    got.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_autocast_regions_that_are_off_stay_fp32() -> None:
    inner = nn.Linear(8, 8)

    def function(x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return inner(x) + x @ x.t()

    x = torch.randn(8, 8)
    assert torch.equal(call(function, x), inner(x) + x @ x.t())


def test_an_outer_autocast_does_not_change_a_recipe() -> None:
    for name in ("bf16", "mxfp8"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32))
        convert(model, recipe(name, engine="emulated"))
        x = torch.randn(4, 32)
        want = model(x)
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype):
                assert torch.equal(model(x), want)


def test_residual_stream() -> None:
    class Stream(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.position = nn.Embedding(5, 8), nn.Parameter(torch.randn(3, 8))
            self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)
            self.dtypes: list[torch.dtype] = []

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens) + self.position
            x = x + self.fc(self.norm(x))
            self.dtypes = [x.dtype, self.norm(x).dtype]
            return x

    for residual, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model = Stream()
        convert(model, recipe("bf16", residual=residual))
        assert model(torch.tensor([[0, 1, 2]])).dtype == torch.float32
        assert model.dtypes == [dtype, dtype]


LOWEST = torch.finfo(torch.float16).min


@pytest.mark.parametrize(
    "mask",
    [lambda s: s + torch.full((2, 2), LOWEST, dtype=torch.float16),
     lambda s: s.masked_fill(torch.ones(2, 2).bool(), -1e9),
     lambda s: torch.where(torch.ones(2, 2).bool(), -1e9, s), lambda s: s - 1e9],
)  # fmt: skip
def test_masks_of_a_whole_row_stay_finite_in_fp16(mask: Callable[[Tensor], Tensor]) -> None:
    scores = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]]).half().requires_grad_()
    got = call(lambda s: mask(s).softmax(-1), scores, name="fp16")
    assert torch.isfinite(got).all()


def test_constants_that_fp16_and_bf16_cannot_hold() -> None:
    x = torch.tensor([0.0, 1.0])
    assert call(lambda t: 1.0 / (t + 1e-8), x.half(), name="fp16").isfinite().all()
    assert float(call(lambda t: t.clamp(1e-6, 1 - 1e-6), x.bfloat16())[1]) < 1.0
    assert call(lambda t: t.clamp(0.0, 6.0), x.bfloat16()).dtype == torch.bfloat16
