"""Every spelling of a product: torch's own result where nothing is cast, one rounding in 16 bits, all of it named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .oracle import assert_near

A, B, V = (4, 6), (6, 5), (6,)
CALLS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "matmul": (torch.matmul, (A, B)),
    "matmul batched": (torch.matmul, ((2, 3, *A), (3, *B))),
    "matmul vector": (torch.matmul, (A, V)),
    "vector matmul": (torch.matmul, (V, B)),
    "vector batched": (torch.matmul, (V, (3, *B))),
    "dot": (torch.matmul, (V, V)),
    "mm": (torch.mm, (A, B)),
    "Tensor.mm": (lambda a, b: a.mm(b), (A, B)),
    "mv": (torch.mv, (A, V)),
    "bmm": (torch.bmm, ((3, *A), (3, *B))),
    "__matmul__": (lambda a, b: a @ b, (A, B)),
    "linear of a vector": (lambda a, w: F.linear(a, w), (A, V)),
    "addmm": (torch.addmm, ((4, 5), A, B)),
    "addmm scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), ((5,), A, B)),
    "addmv": (torch.addmv, ((4,), A, V)),
    "baddbmm": (torch.baddbmm, ((3, 4, 5), (3, *A), (3, *B))),
    "addbmm": (torch.addbmm, ((4, 5), (3, *A), (3, *B))),
    "inner": (torch.inner, (A, (5, 6))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), (A, B)),
    "tensordot 2": (lambda a, b: torch.tensordot(a, b, dims=([1, 0], [0, 1])), ((2, 3, 4), (3, 2, 5))),
    "multi_dot": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (A, B, (5, 3))),
    "multi_dot of vectors": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), ((6,), B, (5,))),
    "chain_matmul": (torch.chain_matmul, (A, B, (5, 3))),
    "bilinear": (F.bilinear, (A, (4, 3), (5, 6, 3), (5,))),
    "einsum": (lambda a, b: torch.einsum("ik,kj->ij", a, b), (A, B)),
    "einsum implicit": (lambda a, b: torch.einsum("ik,kj", a, b), (A, B)),
    "einsum transposed": (lambda a, b: torch.einsum("ba,bc", a, b), ((6, 4), B)),
    "einsum batched": (lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), ((2, 3, 4, 6), (2, 3, 5, 6))),
    "einsum two sums": (lambda a, b: torch.einsum("bij,jik->kb", a, b), ((2, 3, 4), (4, 3, 5))),
    "einsum ellipsis": (lambda a, b: torch.einsum("...ik,...kj->...ij", a, b), ((2, 3, *A), (3, *B))),
    "einsum ellipsis implicit": (lambda a, b: torch.einsum("...ik,kj", a, b), ((2, *A), B)),
    "einsum diagonal": (lambda a, b: torch.einsum("iik,kj->ij", a, b), ((4, 4, 6), B)),
    "einsum lonely": (lambda a, b: torch.einsum("xik,kjy->ij", a, b), ((2, *A), (*B, 3))),
    "einsum broadcast": (lambda a, b: torch.einsum("bik,bkj->bij", a, b), ((1, *A), (3, *B))),
    "einsum broadcast sum": (lambda a, b: torch.einsum("ik,kj->ij", a, b), ((4, 1), B)),
    "einsum of three": (lambda a, b, c: torch.einsum("ik,kj,jl->il", a, b, c), (A, B, (5, 3))),
    "einsum of four": (lambda a, b, c, d: torch.einsum("ik,kj,jl,lm->im", a, b, c, d), (A, B, (5, 3), (3, 2))),
    "einsum bilinear": (lambda a, w, b: torch.einsum("bi,oij,bj->bo", a, w, b), (A, (5, 6, 3), (4, 3))),
    "einsum outer": (lambda a, b: torch.einsum("i,j->ij", a, b), ((4,), (5,))),
    "einsum alone": (lambda a: torch.einsum("ij->j", a), (A,)),
    "einsum sublists": (lambda a, b: torch.einsum(a, [0, 1], b, [1, 2], [2, 0]), (A, B)),
    "einsum sublists implicit": (lambda a, b: torch.einsum(a, [0, 1], b, [1, 2]), (A, B)),
    "einsum list": (lambda a, b: torch.einsum("ik,kj->ij", [a, b]), (A, B)),
}  # fmt: skip
WITHOUT_GEMM = {"dot", "einsum outer", "einsum alone", "einsum broadcast sum"}


class Call(nn.Module):
    def __init__(self, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *operands: Tensor) -> Tensor:
        return self.call(*operands)


def values_of(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).double() for shape in shapes]


def results(call: Callable[..., Tensor], operands: list[Tensor]) -> list[Tensor]:
    """The output and the gradients, for an output gradient of small integers, which every format holds."""
    leaves = [t.clone().requires_grad_() for t in operands]
    y = call(*leaves)
    y.backward((torch.arange(y.numel()) % 5 - 2).reshape(y.shape).to(y.dtype))
    return [y.detach(), *(t.grad for t in leaves)]


LOW = Recipe(name="low", rules=(Rule(type="matmul", precision=LayerPrecision.uniform("bf16"), required=False),))


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("chosen", [recipe("mxfp8"), recipe("bf16", engine="emulated"), LOW], ids=lambda r: r.name)
def test_results_gradients_and_audit(chosen: Recipe, name: str) -> None:
    call, shapes = CALLS[name]
    operands = values_of(shapes, torch.bfloat16)
    want = results(call, operands)
    model = Call(call)
    conversion = convert(model, chosen)
    with conversion.measured():
        got = results(model, [t.float() for t in operands])
    # Several roundings where several products stand in a row.
    near = 1e-5 if chosen.name == "mxfp8" else 2.0**-6
    for g, w in zip(got, want, strict=True):
        assert_near(g, w, near)
    audit = conversion.audit()
    assert not audit.uncovered, [r for r in audit.uncovered]
    assert audit.rows or name in WITHOUT_GEMM
    formats = {"mxfp8": {"fp32"}, "bf16": {"bf16"}, "low": {"bf16", "fp32"}}[chosen.name]
    assert {row.format for row in audit.rows} <= formats


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind == "packed":
            self.inner: nn.Module = nn.LSTM(6, 5)
        else:
            made, _, option = kind.partition(" ")
            options = {"": {}, "deep": {"num_layers": 2, "bidirectional": True}, "projected": {"proj_size": 3}}[option]
            self.inner = getattr(nn, made)(6, 5, **options)
        self.kind = kind

    def forward(self, x_TNI: Tensor) -> Tensor:
        if self.kind == "packed":
            return self.inner(nn.utils.rnn.pack_padded_sequence(x_TNI, [4, 2, 1]))[0].data
        if "Cell" not in self.kind:
            return self.inner(x_TNI)[0]
        y = self.inner(x_TNI[0])
        return y[0] if isinstance(y, tuple) else y


# FLOPs of the forward pass: tokens times weights, twice.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RECURRENT = [
    "LSTM",
    "LSTM deep",
    "LSTM projected",
    "GRU",
    "GRU deep",
    "RNN",
    "RNN deep",
    "LSTMCell",
    "GRUCell",
    "RNNCell",
    "packed",
]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("name", ["fp32", "mxfp8", "bf16", "fp16"])
def test_recurrent_layers_are_right_and_named(name: str, kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Recurrent(kind))
    x = torch.randn(4, 3, 6)
    want = results(model, [x])
    weights = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    conversion = convert(model, recipe(name, engine="emulated"))
    with conversion.measured():
        got = results(model, [x])
    near = {"bf16": 0.04, "fp16": 0.005}.get(name, 1e-5)
    for g, w in zip([*got, *(p.grad for p in model.parameters())], [*want, *weights], strict=True):
        assert_near(g, w.double(), near)
    audit = conversion.audit()
    assert not audit.uncovered, [r for r in audit.uncovered]
    expected = name if name in ("bf16", "fp16") else "fp32"
    assert {(row.format, row.site, row.engine) for row in audit.rows} == {
        (expected, "0.inner", "native" if expected == "fp32" else "emulated")
    }
    tokens = {"packed": 7}.get(kind, 3 if "Cell" in kind else 12)
    forward = 2 * tokens * sum(p.numel() for p in model.parameters() if p.dim() > 1)
    # The backward pass has two products for each of the forward pass, but none with the state before the first step.
    assert 2.4 * forward <= audit.flops <= 3 * forward


@pytest.mark.parametrize("name", ["mxfp8", "bf16"])
def test_a_recurrent_layer_beside_others_has_its_share(name: str) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.fc = nn.LSTM(6, 5), nn.Linear(5, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.rnn(x)[0])

    conversion = convert(model := Both(), recipe(name, engine="emulated"))
    with conversion.measured():
        model(torch.randn(4, 3, 6)).sum().backward()
    audit = conversion.audit()
    lstm = sum(row.flops for row in audit.rows if row.site == "rnn")
    assert lstm == 2 * 12 * (20 * 6 + 20 * 5) * 3
    if name == "mxfp8":
        assert audit.share("fp32") == lstm / audit.flops
    else:
        assert audit.share("bf16") == 1.0


@pytest.mark.parametrize("kind", ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"])
@pytest.mark.parametrize("name", ["mxfp8", "bf16", "fp16"])
def test_transposed_convolutions(name: str, kind: str) -> None:
    torch.manual_seed(0)
    dims = int(kind[-2])
    model = nn.Sequential(getattr(nn, kind)(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2))
    x = torch.randn(2, 4, *(5,) * dims)
    want = results(model, [x])
    weights = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    conversion = convert(model, recipe(name, engine="emulated"))
    with conversion.measured():
        got = results(model, [x])
    for g, w in zip([*got, *(p.grad for p in model.parameters())], [*want, *weights], strict=True):
        assert_near(g, w.double(), {"bf16": 0.01, "fp16": 0.001}.get(name, 1e-5))
    audit = conversion.audit()
    assert not audit.uncovered
    assert {(row.format, row.site) for row in audit.rows} == {("fp32" if name == "mxfp8" else name, "0")}
    assert audit.flops == 3 * 2 * 2 * 5**dims * 4 * 3 * 3**dims


@pytest.mark.parametrize("name", ["mxfp8", "bf16"])
def test_a_bilinear_layer(name: str) -> None:
    torch.manual_seed(0)
    model = Call(nn.Bilinear(6, 3, 5))
    operands = values_of(((4, 6), (4, 3)), torch.bfloat16)
    want = results(model.call.double(), operands)
    model.float().zero_grad()
    conversion = convert(model, recipe(name, engine="emulated"))
    with conversion.measured():
        got = results(model, [t.float() for t in operands])
    for g, w in zip(got, want, strict=True):
        assert_near(g, w, 1e-5 if name == "mxfp8" else 0.02)
    audit = conversion.audit()
    assert {(row.site, row.covered) for row in audit.rows} == {("call", True)}
    assert audit.flops == 4 * 2 * 4 * 6 * 5 * 3  # once forward, once for each operand's gradient


def test_evaluation_in_inference_mode_is_measured() -> None:
    model = nn.Sequential(nn.Linear(6, 6), Call(lambda x: x @ x.t()))
    conversion = convert(model, recipe("mxfp8"))
    with conversion.measured(), torch.inference_mode():
        model(torch.randn(4, 6))
    assert {(row.site, row.format) for row in conversion.audit().rows} == {("0", "mxfp8 rceil"), ("1", "fp32")}
    assert not conversion.audit().uncovered
