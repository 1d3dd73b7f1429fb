"""``mixprec.functional``: torch's functions in casts, outside of any conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mixprec
from mixprec import functional as mf
from mixprec.specs import LayerPrecision, Recipe, Rule
from tests.nn.oracle import Oracle, assert_near, rounding_of
from tests.nn.test_convert import quiet_compiler

PRECISION = LayerPrecision.of(input="mxfp8 rceil", weight="nvfp4-2d", grad_output="e5m2[tensor]")
CALLS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "linear": (mf.linear, F.linear, ((5, 3, 33), (7, 33), (7,))),
    "matmul": (mf.matmul, torch.matmul, ((2, 3, 5, 33), (3, 33, 7))),
    "matmul of vectors": (mf.matmul, torch.matmul, ((33,), (33,))),
    "outer": (mf.matmul, torch.matmul, ((5, 1), (1, 7))),
    "bmm": (mf.bmm, torch.bmm, ((3, 5, 33), (3, 33, 7))),
    "einsum": (
        lambda a, b, **o: mf.einsum("bik,bkj->bij", a, b, **o),
        lambda a, b: torch.einsum("bik,bkj->bij", a, b),
        ((3, 5, 33), (3, 33, 7)),
    ),
    "einsum of three": (
        lambda a, b, c, **o: mf.einsum("ik,kj,jl->il", a, b, c, **o),
        lambda a, b, c: torch.einsum("ik,kj,jl->il", a, b, c),
        ((5, 33), (33, 7), (7, 4)),
    ),
    "conv1d": (mf.conv1d, F.conv1d, ((2, 6, 9), (8, 6, 3), (8,))),
    "conv2d": (
        lambda x, w, **o: mf.conv2d(x, w, None, 2, 1, 1, 2, **o),
        lambda x, w: F.conv2d(x, w, None, 2, 1, 1, 2),
        ((2, 6, 7, 7), (8, 3, 3, 3)),
    ),
    "conv2d same": (
        lambda x, w, **o: mf.conv2d(x, w, padding="same", dilation=2, **o),
        lambda x, w: F.conv2d(x, w, padding="same", dilation=2),
        ((6, 7, 7), (8, 6, 2, 3)),
    ),
    "conv3d": (mf.conv3d, F.conv3d, ((1, 3, 4, 4, 4), (5, 3, 2, 2, 2), (5,))),
    "attention": (
        lambda q, k, v, **o: mf.scaled_dot_product_attention(q, k, v, is_causal=True, **o),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 4)),
    ),
}


def results(
    call: Callable[..., Tensor], shapes: Any, dtype: torch.dtype = torch.float32, **options: Any
) -> list[Tensor]:
    torch.manual_seed(0)
    leaves = [torch.randn(s).to(dtype).requires_grad_() for s in shapes]
    y = call(*leaves, **options)
    y.backward(torch.ones_like(y))
    return [y.detach(), *(t.grad for t in leaves)]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compute_dtype", [None, "fp32", "bf16", "fp16"])
def test_without_casts_it_is_torchs(name: str, compute_dtype: str | None) -> None:
    ours, theirs, shapes = CALLS[name]
    got = results(ours, shapes, compute_dtype=compute_dtype)
    for g, w in zip(got, results(theirs, shapes), strict=True):
        assert_near(g, w.double(), {"bf16": 0.03, "fp16": 0.004}.get(compute_dtype or "", 1e-5))
    assert got[0].dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}.get(compute_dtype or "", torch.float32)


@pytest.mark.parametrize("name", CALLS)
def test_casts_reach_every_operand(name: str) -> None:
    """Under exact casts it is torch's; under MXFP8 it is near, and no result is torch's."""
    ours, theirs, shapes = CALLS[name]
    want = results(theirs, shapes)
    for g, w in zip(results(ours, shapes, precision="fp32"), want, strict=True):
        assert_near(g, w.double())
    grown = "bias" if len(shapes) == 3 and len(shapes[-1]) == 1 else ""
    for g, w in list(zip(results(ours, shapes, precision="mxfp8"), want, strict=True))[: -1 if grown else None]:
        error = float((g - w).norm() / w.norm())
        assert 1e-4 < error < 0.2, error


@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_linear_against_float64(compute_dtype: str) -> None:
    torch.manual_seed(0)
    x, w, grad = torch.randn(9, 33).requires_grad_(), torch.randn(7, 33).requires_grad_(), torch.randn(9, 7)
    y = mf.linear(x, w, precision=PRECISION, compute_dtype=compute_dtype, seed=5)
    y.backward(grad.to(y.dtype))
    oracle = Oracle(PRECISION, compute_dtype, seed=5)
    near = rounding_of(compute_dtype)
    assert_near(y.detach(), oracle.values(x, "fprop_input") @ oracle.values(w, "fprop_weight").t(), near)
    dgrad = oracle.values(grad, "dgrad_grad_output") @ oracle.transposed_values(w, "dgrad_weight").t()
    assert_near(x.grad, dgrad, near)
    wgrad = oracle.transposed_values(grad, "wgrad_grad_output") @ oracle.transposed_values(x, "wgrad_input").t()
    assert_near(w.grad, wgrad)


@pytest.mark.parametrize("name", ["linear", "bmm", "conv2d", "attention"])
def test_equal_seeds_give_equal_bits(name: str) -> None:
    ours, _, shapes = CALLS[name]
    first, again, other = (results(ours, shapes, precision="e2m1[1x16:e4m3*fp32] sr", seed=s) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first[:3], other[:3], strict=True))


def test_it_is_the_converted_layers_product() -> None:
    layer = nn.Sequential(nn.Linear(33, 7))
    x = torch.randn(4, 33)
    want = mf.linear(x, layer[0].weight, layer[0].bias, precision=PRECISION)
    mixprec.convert(layer, Recipe(name="same", rules=(Rule(precision=PRECISION),)))
    assert torch.equal(layer(x), want)


@pytest.mark.parametrize("which", [0, 1])
def test_one_product_of_attention(which: int) -> None:
    q, k, v = (torch.randn(2, 5, 16) for _ in range(3))
    casts = tuple("e4m3" if i == which else None for i in range(2))
    got = mf.scaled_dot_product_attention(q, k, v, precision=casts)  # type: ignore[arg-type]

    def r(t: Tensor) -> Tensor:
        return mixprec.fake_quantize(t, "e4m3")

    p = torch.softmax((r(q) @ r(k).mT if which == 0 else q @ k.mT) / 4.0, -1)
    torch.testing.assert_close(got, p @ v if which == 0 else r(p) @ r(v))


def test_16_bit_operands_stay_16_bit() -> None:
    x, w = torch.randn(4, 8).bfloat16(), torch.randn(3, 8)
    assert mf.linear(x, w, precision="mxfp8").dtype == torch.bfloat16
    assert mf.linear(x, w, precision="mxfp8", compute_dtype="fp32").dtype == torch.float32


def test_a_converted_model_that_calls_it_is_measured() -> None:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.fc = nn.Parameter(torch.randn(8, 8)), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(mf.linear(x, self.weight, precision="mxfp4"))

    for name in ("mxfp8", "bf16"):
        conversion = mixprec.convert(model := nn.Sequential(Calls()), mixprec.recipe(name, engine="emulated"))
        with conversion.measured():
            model(torch.randn(4, 8)).sum().backward()
        rows = conversion.audit().rows
        assert {row.format for row in rows if row.site == "0"} == {"mxfp4"}
        assert {row.gemm for row in rows if row.site == "0"} == {"fprop", "wgrad"}
        assert not conversion.audit().uncovered


def test_autocast_outside_changes_nothing() -> None:
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    want = mf.linear(x, w, precision="mxfp8")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mf.linear(x, w, precision="mxfp8"), want)


@quiet_compiler
@pytest.mark.parametrize("options", [{"precision": PRECISION, "seed": 3}, {"compute_dtype": "bf16"}])
@pytest.mark.parametrize(
    "name", ["matmul", "bmm", "einsum", "einsum of three", "conv1d", "conv2d", "conv3d", "attention"]
)
def test_compiled_in_one_graph_it_is_the_eager_one(name: str, options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    ours, _, shapes = CALLS[name]
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    want, got = results(ours, shapes, **options), results(compiled, shapes, **options)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@quiet_compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_it_is_the_eager_one() -> None:
    x, w = torch.randn(4, 32, requires_grad=True), torch.randn(3, 32, requires_grad=True)

    def step(x: Tensor, w: Tensor) -> Tensor:
        return mf.linear(x, w, precision="nvfp4 sr rht16", seed=3).square()

    want = step(x, w)
    wanted = torch.autograd.grad(want.sum(), (x, w))
    got = torch.compile(step, backend="aot_eager", fullgraph=True)(x, w)
    assert torch.equal(got, want)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(got.sum(), (x, w)), wanted, strict=True))


X = torch.randn(4, 8)


BAD: dict[str, tuple[Callable[[], Tensor], type[Exception], str]] = {
    "integers": (lambda: mf.linear(X.long(), X), TypeError, "functional.linear: got an input of dtype int64"),
    "fp64": (lambda: mf.linear(X, X.double()), TypeError, "functional.linear: got a weight of dtype float64"),
    "second": (lambda: mf.matmul(X, X.mT.int()), TypeError, "functional.matmul: got a weight of dtype int32"),
    "compute dtype": (lambda: mf.linear(X, X, compute_dtype="fp64"), ValueError, "compute_dtype is 'fp64', expected"),
    "precision": (lambda: mf.linear(X, X, precision=8), TypeError, "precision is a int, expected a LayerPrecision"),
    "cast": (lambda: mf.linear(X, X, precision="mxfp9"), ValueError, "mxfp9"),
    "delayed": (lambda: mf.linear(X, X, precision="e4m3[tensor] delayed"), ValueError, "got a delayed scale"),
    "bmm": (lambda: mf.bmm(X, X), ValueError, r"functional.bmm: got shapes \[4, 8\] and \[4, 8\], expected"),
    "nothing": (lambda: mf.einsum("ij->i"), ValueError, "functional.einsum: got no operands"),
    "dimensions": (lambda: mf.conv2d(X, X), ValueError, "functional.conv2d: got an input of 2 dimensions"),
    "option": (lambda: mf.conv1d(X, X[:, :, None], precison="mxfp8"), TypeError, "functional.conv1d: got precison"),
    "rows": (lambda: mf.conv1d(X, torch.ones(2, 4, 3), precision="int8[row]"), ValueError, "functional.conv1d: fprop"),
    "shapes": (lambda: mf.matmul(X, X), RuntimeError, "shape"),
    "complex": (lambda: mf.einsum("ij,kj", X, X.cfloat()), TypeError, "functional.einsum: got a weight of dtype comp"),
    "third": (
        lambda: mf.einsum("ij,kj,lj", X, X, X.int()),
        TypeError,
        "functional.einsum: got operand 3 of dtype int32",
    ),
    "sublists": (
        lambda: mf.einsum(X, [0, 1], X, [2, 1]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "functional.einsum: got a Tensor as the equation, expected a string",
    ),
    "list": (
        lambda: mf.einsum("ij,kj", [X, X]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "functional.einsum: got a list as operand 1, expected a torch.Tensor",
    ),
    "no tensor": (
        lambda: mf.linear(X, [1.0]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "functional.linear: got a list as operand 2",
    ),
    "a weight's hint": (
        lambda: mf.linear(X, X.long()),
        TypeError,
        r"dtype int64, expected float32, bfloat16 or float16: give it floating values, such as t\.float",
    ),
    "equation": (lambda: mf.einsum("ij,kj", X, X[0]), RuntimeError, "einsum"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


def test_the_face_has_it() -> None:
    assert mixprec.functional is mf
