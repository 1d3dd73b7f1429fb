"""What a converted model is not made for: one clear message each, with the site's name, or the right result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

RECIPES = ["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
LOW = LayerPrecision.uniform("mxfp8")


def converted(model: nn.Module, name: str = "mxfp8") -> nn.Module:
    convert(model, recipe(name, engine="emulated"))
    return model


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float64, torch.complex64])
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("layer", [lambda: nn.Linear(4, 4), lambda: nn.Conv1d(4, 4, 1)], ids=["linear", "conv"])
def test_an_input_that_torch_refuses_is_refused(layer: Callable[[], nn.Module], name: str, dtype: torch.dtype) -> None:
    x = torch.ones(4, 4).to(dtype)
    model = nn.Sequential(nn.ModuleDict({"fc": layer()})["fc"])
    with pytest.raises(RuntimeError):
        model(x)
    short = str(dtype).removeprefix("torch.")
    with pytest.raises(
        TypeError, match=rf"^0: got an input of dtype {short}, expected float32, bfloat16 or float16.*x.float\(\)"
    ):
        converted(model, name)(x)


class Doubles(nn.Module):
    """Computes a part in fp64 itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        x, w = x.double(), self.weight.double()
        y = torch.einsum("ik,kj->ij", F.linear(x @ w, w), w)
        y = F.conv1d(y[None], w[:, :, None])[0] + torch.addmm(w, w, y)
        y = F.scaled_dot_product_attention(y[None], y[None], y[None])[0] + torch.linalg.multi_dot([y, w, w])
        self.seen = y + F.bilinear(y, y, w[None]) + torch.tensordot(y, w, 1)
        return self.seen.float()


@pytest.mark.parametrize("name", RECIPES)
def test_fp64_is_kept(name: str) -> None:
    model, x = Doubles(), torch.randn(6, 6)
    model(x)
    want = model.seen
    converted(model, name)
    model(x)
    assert model.seen is not None
    assert model.seen.dtype == torch.float64
    torch.testing.assert_close(model.seen, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_layers_of_other_dtypes_are_left_alone_and_named(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {"wide": nn.Linear(4, 4, dtype=dtype), "conv": nn.Conv1d(4, 4, 1, dtype=dtype), "fc": nn.Linear(4, 4)}
    )
    x = torch.randn(4, 4, dtype=dtype)
    want = model["conv"](model["wide"](x))

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Tensor) -> Tensor:
            return self.inner["conv"](self.inner["wide"](x))

    conversion = convert(both := Both(), recipe(name, engine="emulated"))
    assert torch.equal(both(x), want)
    short = str(dtype).removeprefix("torch.")
    assert f"inner.wide and 1 more left as they are: a weight of dtype {short}" in " ".join(conversion.notes)


def test_integer_weights_are_left_alone_and_named() -> None:
    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(torch.ones(4, 4, dtype=torch.int8), requires_grad=False)
    conversion = convert(nn.Sequential(layer, nn.Linear(4, 4)), "mxfp8")
    assert "0 left as it is: a weight of dtype int8" in conversion.notes[-1]


def test_a_weight_that_changes_its_dtype_later_is_told() -> None:
    model = converted(nn.Sequential(nn.Linear(4, 4)))
    model.double()
    with pytest.raises(TypeError, match=r"^0: got an input of dtype float64"):
        model(torch.randn(2, 4).double())
    with pytest.raises(TypeError, match=r"^0: got a weight of dtype float64.*restore\(\)"):
        model(torch.randn(2, 4))


@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_lazy_modules(name: str) -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyConv1d(3, 1))
    with pytest.raises(
        ValueError, match=r"convert: 0 is a LazyLinear whose shapes are not known yet: run one forward pass"
    ):
        convert(model, name)
    assert type(model[1]) is nn.ReLU
    model(torch.randn(2, 5, 6))
    conversion = convert(model, recipe(name, engine="emulated"))
    with conversion.measured():
        model(torch.randn(2, 5, 6)).sum().backward()
    assert conversion.audit().share({"mxfp8": "mxfp8 rceil"}.get(name, name)) == 1.0


NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "old weight_norm": nn.utils.weight_norm,
    "old spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm.*is deprecated")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_parametrized_layers_multiply_their_rounded_weight(kind: str, norm: str) -> None:
    def build() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(NORMS[norm](nn.Linear(8, 8) if kind == "linear" else nn.Conv1d(8, 8, 1))).eval()

    model, plain, x = build(), build(), torch.randn(8, 8, 8)
    plain(x)  # hooks of the old ones compute the weight
    conversion = convert(model, Recipe(name="mx", rules=(Rule(precision=LOW),)))
    with conversion.measured():
        y = model(x)
        y.square().mean().backward()
    audit = conversion.audit()
    assert {row.site for row in audit.rows if row.format == "mxfp8"} == {"0"}
    assert {row.gemm for row in audit.rows if row.format == "mxfp8"} == {"fprop", "wgrad"}
    assert not audit.uncovered
    want = nn.Sequential(nn.Linear(8, 8) if kind == "linear" else nn.Conv1d(8, 8, 1))
    with torch.no_grad():
        want[0].weight.copy_(plain[0].weight)
        want[0].bias.copy_(plain[0].bias)
    convert(want, Recipe(name="mx", rules=(Rule(precision=LOW),)))
    assert torch.equal(want(x), y)
    trained = [p.grad for p in model.parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in trained)


def test_a_temporary_weight_is_never_taken_for_another() -> None:
    """Weights that are computed in every pass share memory; their codes must not."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.scale = nn.Parameter(torch.randn(16, 16), requires_grad=False), 1.0

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight * self.scale)

    model, x = Masked(), torch.randn(4, 16)
    convert(model, Recipe(name="mx", rules=(Rule(precision=LOW),)))
    with torch.no_grad():
        for scale in (1.0, 1.0, 1.0, 2.0, 3.0):
            model.scale = scale
            first = model(x)
            torch.testing.assert_close(first / scale, model(x) / scale)
            model.scale = 4 * scale
            assert torch.equal(model(x), 4 * first)


def test_a_weight_and_its_transpose_are_two_operands() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(32, 32), requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((F.linear(x, self.weight), F.linear(x, self.weight.t())))

    model, x = Both(), torch.randn(4, 32)
    convert(model, Recipe(name="mx", rules=(Rule(precision=LOW),)))
    with torch.no_grad():
        first = model(x)
        for _ in range(3):
            assert torch.equal(model(x), first)


# --- recipes ------------------------------------------------------------------------------------------


def test_a_recipe_that_contradicts_itself() -> None:
    rules = (Rule(precision=LOW), Rule(match="*head", precision=None))
    model = nn.ModuleDict({"fc": nn.Linear(4, 4), "head": nn.Linear(4, 4)})
    with pytest.raises(
        ValueError,
        match=r"recipe odd contradicts itself: its rule 2 of 2 \(match='\*head'\).*of head, the earlier rule 1 of 2 ",
    ):
        convert(model, Recipe(name="odd", rules=rules))
    assert type(model["fc"]) is nn.Linear
    convert(model, Recipe(name="right", rules=rules[::-1]))


def test_a_rule_that_is_partly_taken_is_none() -> None:
    rules = (Rule(match="fc*", precision=LOW), Rule(precision=None))
    convert(nn.ModuleDict({"fc": nn.Linear(4, 4), "head": nn.Linear(4, 4)}), Recipe(name="fine", rules=rules))
    convert(
        nn.ModuleDict({"fc": nn.Linear(4, 4)}), Recipe(name="same", rules=(Rule(precision=LOW), Rule(precision=LOW)))
    )


# --- what converted layers do not do -------------------------------------------------------------------

MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Linear(8, 8)),
    "conv": lambda: nn.Sequential(nn.Conv1d(8, 8, 1)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_a_second_derivative_says_what_to_do(name: str, model: str) -> None:
    layer = converted(MODELS[model](), name)
    x = torch.randn(8, 8, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    what = r"mixprec: layer '0' \((Linear|Conv1d)\) got a second derivative.*torch_amp.*restore\(\).*docs/support.md"
    with pytest.raises(RuntimeError, match=what):
        first.sum().backward()
    (alone,) = torch.autograd.grad(layer(x).square().sum(), x)
    torch.testing.assert_close(first.detach(), alone)


class Penalized(nn.Module):
    """A part that its author keeps out of autocast, as a second derivative's message says."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return torch.tanh(self.fc(x))


@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_a_part_out_of_autocast_has_second_derivatives(name: str) -> None:
    x, gradients = torch.randn(8, 8, requires_grad=True), []
    for model in (Penalized(), converted(Penalized(), name)):
        (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradients.append(torch.autograd.grad(first.square().sum(), list(model.parameters())))
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
@pytest.mark.parametrize("transform", ["vmap", "jacrev", "grad", "jacfwd", "jvp"])
@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_transforms_say_what_to_do(name: str, transform: str) -> None:
    layer = converted(nn.Sequential(nn.Linear(8, 8)), name)
    x = torch.randn(3, 8)
    calls: dict[str, Callable[[], Any]] = {
        "vmap": lambda: torch.vmap(layer)(x),
        "jacrev": lambda: torch.func.jacrev(layer)(x),
        "grad": lambda: torch.func.grad(lambda t: layer(t).sum())(x),
        "jacfwd": lambda: torch.func.jacfwd(layer)(x),
        "jvp": lambda: torch.func.jvp(layer, (x,), (x,)),
    }
    with pytest.raises(RuntimeError, match=r"mixprec: 0 was called under torch.func .*restore\(\).*docs/support.md"):
        calls[transform]()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_forward_mode_says_what_to_do(name: str) -> None:
    layer = converted(nn.Sequential(nn.Linear(8, 8)), name)
    x = torch.randn(3, 8)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(RuntimeError, match=r"mixprec: 0 was called under forward-mode differentiation"):
            layer(dual)
        layer(x)


@pytest.mark.parametrize("call", [lambda a: a @ a, lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None])])
def test_functions_refuse_as_layers_do(call: Callable[[Tensor], Tensor]) -> None:
    class Calls(nn.Module):
        def forward(self, a: Tensor) -> Tensor:
            return call(a)

    x = torch.randn(4, 4, requires_grad=True)
    model = converted(Calls(), "bf16")
    with pytest.raises(RuntimeError, match=r"mixprec: .*under torch\.func"):
        torch.func.grad(lambda t: model(t).sum())(x)
    (first,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"mixprec: .*second derivative"):
        first.sum().backward()


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^convert: model is a function, expected a torch.nn.Module"):
        convert(lambda x: x, "bf16")  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]


@pytest.mark.parametrize(
    ("kind", "offer"),
    [("Linaer", ": did you mean 'Linear'?"), ("conv2d", ": did you mean 'Conv2d'?"), ("Zebra", ";")],
)
def test_a_misspelled_type_is_offered_a_type(kind: str, offer: str) -> None:
    rules = (Rule(match="*", type=kind, precision=LOW),)
    with pytest.raises(ValueError, match=re.escape(f"no type is called '{kind}'{offer}")):
        convert(nn.Sequential(nn.Linear(4, 4)), Recipe(name="r", rules=rules))


# --- masks in fp16 -------------------------------------------------------------------------------------

LOWEST = torch.finfo(torch.float16).min
ADDITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {}


def addition(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    ADDITIONS[function.__name__] = function
    return function


@addition
def iadd(scores: Tensor, mask: Tensor) -> Tensor:
    scores += mask
    return scores


@addition
def add_(scores: Tensor, mask: Tensor) -> Tensor:
    scores.add_(mask)
    return scores


@addition
def isub(scores: Tensor, mask: Tensor) -> Tensor:
    scores -= -mask
    return scores


@addition
def out_of_place(scores: Tensor, mask: Tensor) -> Tensor:
    return scores + mask


@addition
def mask_first(scores: Tensor, mask: Tensor) -> Tensor:
    return mask + scores


@addition
def baddbmm(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.baddbmm(mask[None], scores[None], torch.eye(2, dtype=scores.dtype)[None])[0]


@addition
def addmm(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.addmm(mask, scores, torch.eye(2, dtype=scores.dtype))


class Masked(nn.Module):
    def __init__(self, added: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.added, self.fc = added, nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(2))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.fc(x)
        mask = torch.tensor([[LOWEST, LOWEST], [LOWEST, 0.0]], dtype=scores.dtype)
        return self.added(scores, mask).softmax(-1)


@pytest.mark.parametrize("name", ADDITIONS)
@pytest.mark.parametrize("training", [True, False])
def test_a_mask_of_the_lowest_value_keeps_the_row(name: str, training: bool) -> None:
    model = Masked(ADDITIONS[name])
    converted(model, "fp16")
    x = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]], requires_grad=True)
    with torch.set_grad_enabled(training):
        y = model(x)
    torch.testing.assert_close(y.detach(), torch.tensor([[0.99995, 4.54e-5], [0.0, 1.0]]), atol=1e-3, rtol=0)
    if training:
        y[0, 0].backward()
        assert torch.isfinite(x.grad).all()
        assert 3e-5 < float(x.grad[0, 0]) < 6e-5


def test_a_mask_added_to_a_part_says_what_to_write() -> None:
    class Part(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scores = x @ torch.eye(2)
            part = scores[:1]
            part += torch.full((1, 2), LOWEST, dtype=scores.dtype)
            return scores.softmax(-1)

    model = converted(Part(), "fp16")
    with pytest.raises(RuntimeError, match=r"a row whose sums all leave fp16's range.*write scores = scores \+ mask"):
        model(torch.tensor([[-20.0, -30.0], [-20.0, 3.0]]))
    assert torch.isfinite(model(torch.tensor([[20.0, 30.0], [-20.0, 3.0]]))).all()
