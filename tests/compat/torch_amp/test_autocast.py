"""A region without conversion computes as a model converted to the 16-bit recipes."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import mixprec
from mixprec.compat.torch_amp import autocast, is_autocast_available

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
INPUT = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
TARGET = torch.tensor([0, 1, 2, 1])


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 16), nn.GELU(),
        nn.LayerNorm(16), nn.Linear(16, 3),
    )  # fmt: skip


def gradients(model: nn.Module, loss: Tensor) -> list[Tensor]:
    loss.backward()
    found = [p.grad for p in model.parameters()]
    assert all(g is not None for g in found)
    return [g.clone() for g in found if g is not None]


def of_converted(recipe: str) -> tuple[Tensor, list[Tensor]]:
    model = network()
    mixprec.convert(model, recipe)
    loss = F.cross_entropy(model(INPUT), TARGET)
    return loss.detach(), gradients(model, loss)


@pytest.mark.parametrize("recipe", DTYPES)
def test_numbers_are_those_of_a_converted_model(recipe: str) -> None:
    expected, expected_gradients = of_converted(recipe)
    model = network()
    with autocast("cpu", DTYPES[recipe]):
        loss = F.cross_entropy(model(INPUT), TARGET)
    assert torch.equal(loss, expected)
    for gradient, wanted in zip(gradients(model, loss), expected_gradients, strict=True):
        assert torch.equal(gradient, wanted)
        assert gradient.dtype == torch.float32


def test_the_model_stays_as_it_was() -> None:
    model = network()
    before = [(type(m), set(vars(m))) for m in model.modules()]
    with autocast("cpu", torch.float16):
        model(INPUT)
    assert [(type(m), set(vars(m))) for m in model.modules()] == before
    assert not torch.is_autocast_enabled("cpu")
    assert model(INPUT).dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_a_product_is_that_of_rounded_operands(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    with autocast("cpu", dtype):
        products = [a @ b, torch.matmul(a, b), torch.einsum("ij,jk->ik", a, b), F.linear(a, b.t())]
    exact = a.to(dtype).double() @ b.to(dtype).double()
    for y in products:
        assert y.dtype == dtype
        assert torch.equal(y, exact.to(dtype))


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_saturated_probability(dtype: torch.dtype) -> None:
    x = torch.full((1, 1), 10.0)
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    with autocast("cpu", dtype):
        loss = F.binary_cross_entropy(torch.sigmoid(layer(x)), torch.zeros(1, 1))
    loss.backward()
    assert loss.item() == pytest.approx(10.0000454, abs=0.05)
    assert layer.bias.grad is not None
    assert layer.bias.grad.item() == pytest.approx(0.99995, abs=0.01)


@pytest.mark.parametrize("in_place", [False, True])
def test_mask_plus_negative_score(in_place: bool) -> None:
    lowest = torch.finfo(torch.float16).min
    scores = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]], dtype=torch.float16)
    mask = torch.tensor([[lowest, lowest], [lowest, 0.0]], dtype=torch.float16)
    with autocast("cpu", torch.float16):
        if in_place:
            scores += mask
        else:
            scores = scores.requires_grad_() + mask
        y = torch.softmax(scores, -1)
    assert y.tolist() == [pytest.approx([0.99995, 4.54e-5], abs=1e-3), pytest.approx([0.0, 1.0], abs=1e-3)]
    if not in_place:
        y[:, 0].sum().backward()


@pytest.mark.parametrize("evaluates_first", [False, True])
@pytest.mark.parametrize("dtype", DTYPES.values())
def test_losses_follow_the_weights_inside_one_long_region(dtype: torch.dtype, evaluates_first: bool) -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    with autocast("cpu", dtype, cache_enabled=True):
        if evaluates_first:
            with torch.no_grad():
                assert model(torch.ones(1, 2)).item() == 2.0
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(1, 2)).sum()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
    assert losses == [2.0, 0.0, -2.0]
    assert model.weight.tolist() == [[-2.0, -2.0]]


def test_regions_inside() -> None:
    layer, x = nn.Linear(4, 4), torch.randn(2, 4)
    seen = []
    with autocast("cpu", torch.bfloat16):
        for region in (
            autocast("cpu", enabled=False),
            torch.autocast("cpu", enabled=False),
            autocast("cpu", torch.float16),
            torch.autocast("cpu", torch.float16),
            autocast("cpu", torch.float32),
        ):
            with region:
                seen.append(layer(x).dtype)
                with autocast("cpu", torch.bfloat16):
                    assert layer(x).dtype == torch.bfloat16
        seen.append(layer(x).dtype)
    half, full = torch.float16, torch.float32
    assert seen == [full, full, half, half, full, torch.bfloat16]


def test_what_is_switched_off_is_torchs() -> None:
    torch.manual_seed(0)
    a = torch.randn(8, 8)
    with autocast("cpu", torch.bfloat16), autocast("cpu", enabled=False):
        assert torch.equal(a @ a, torch.mm(a, a))
        assert torch.sigmoid(torch.full((1,), 10.0, dtype=torch.bfloat16)).dtype == torch.bfloat16
    with autocast("cpu", torch.bfloat16, enabled=False):
        assert (a @ a).dtype == torch.float32


def test_decorator_and_reuse() -> None:
    region = autocast("cpu", torch.bfloat16)
    layer = nn.Linear(4, 4)

    @region
    def forward(x: Tensor, depth: int) -> Tensor:
        """Of its own."""
        return layer(x) if depth == 0 else forward(x, depth - 1)

    assert forward.__doc__ == "Of its own."
    for _ in range(2):
        assert forward(torch.ones(1, 4), depth=2).dtype == torch.bfloat16
        with region:
            assert layer(torch.ones(1, 4)).dtype == torch.bfloat16
        assert layer(torch.ones(1, 4)).dtype == torch.float32


def test_copies_are_in_no_region() -> None:
    region = autocast("cpu", torch.float16)
    with region:
        twins = copy.deepcopy(region), pickle.loads(pickle.dumps(region))
    for twin in twins:
        with twin:
            assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float16
        assert not torch.is_autocast_enabled("cpu")


def test_an_error_leaves_the_region() -> None:
    with pytest.raises(ZeroDivisionError), autocast("cpu", torch.bfloat16):
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled("cpu")
    assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float32


def test_threads_have_regions_of_their_own() -> None:
    region, barrier = autocast("cpu", torch.bfloat16), threading.Barrier(2, timeout=10)
    layer, x = nn.Linear(4, 4), torch.ones(1, 4)
    seen: dict[str, torch.dtype] = {}

    def inside() -> None:
        with region:
            barrier.wait()  # both are in it
            seen["inside"] = layer(x).dtype
        barrier.wait()  # this one has left, the other has not
        seen["left"] = layer(x).dtype
        barrier.wait()

    thread = threading.Thread(target=inside)
    thread.start()
    with region:
        barrier.wait()
        barrier.wait()
        seen["stays"] = layer(x).dtype
        barrier.wait()
    thread.join()
    assert seen == {"inside": torch.bfloat16, "left": torch.float32, "stays": torch.bfloat16}


class Parts(nn.Module):
    """A body that may be checkpointed, and a head that is not."""

    def __init__(self, kind: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.body = nn.Sequential(
            nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 16), nn.Softmax(-1), nn.Unflatten(1, (4, 4))
        )
        self.second = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        for part in (self.body, self.second):
            x = part(x) if self.kind is None else checkpoint(part, x, use_reentrant=self.kind)
        return self.head(x)


@pytest.mark.parametrize("kind", [False, True], ids=["non-reentrant", "reentrant"])
@pytest.mark.parametrize("backward_inside", [False, True])
def test_checkpointing_recomputes_by_the_rules(kind: bool, backward_inside: bool) -> None:
    x = torch.randn(4, 16)

    def run(model: Parts) -> list[Tensor]:
        torch.manual_seed(3)
        with autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x.clone().requires_grad_()), TARGET)
            if backward_inside:
                return gradients(model, loss)
        return gradients(model, loss)

    for got, wanted in zip(run(Parts(kind)), run(Parts(None)), strict=True):
        assert torch.equal(got, wanted)


def test_a_checkpointed_model_whose_loss_is_outside() -> None:
    x = torch.randn(4, 16)
    found = []
    for is_checkpointed in (True, False):
        model = Parts(None).body
        with autocast("cpu", torch.float16):
            torch.manual_seed(3)
            y = checkpoint(model, x, use_reentrant=False) if is_checkpointed else model(x)
        found.append(gradients(model, y.float().square().sum()))
    assert all(torch.equal(got, wanted) for got, wanted in zip(*found, strict=True))


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("dtype", DTYPES.values())
def test_a_converted_model_keeps_its_recipe(recipe: str, dtype: torch.dtype) -> None:
    model = network()[4:]
    conversion = mixprec.convert(model, recipe)
    torch.manual_seed(0)
    x = torch.randn(4, 512)

    def run(region: bool) -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        conversion.load_random_state(torch.tensor([0, 0]))
        with autocast("cpu", dtype, enabled=region):
            y = model(x)
        return y.detach(), gradients(model, F.cross_entropy(y, TARGET))

    (y, found), (wanted_y, wanted) = run(True), run(False)
    assert torch.equal(y, wanted_y)
    assert y.dtype == wanted_y.dtype
    assert all(torch.equal(got, right) for got, right in zip(found, wanted, strict=True))


def test_a_converted_model_that_opens_a_region_keeps_its_casts() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = nn.Linear(64, 64)
            self.region: Callable[[], object] = lambda: torch.autocast("cpu", torch.bfloat16)

        def forward(self, x: Tensor) -> Tensor:
            with self.region():
                return self.fc(x)

    torch.manual_seed(1)
    x, outputs = torch.randn(8, 64), []
    for region in (lambda: torch.autocast("cpu", torch.bfloat16), lambda: autocast("cpu", torch.bfloat16)):
        model = Own()
        model.region = region
        mixprec.convert(model, "mxfp8")
        outputs.append(model(x))
    assert torch.equal(*outputs)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch, while it traces
@pytest.mark.parametrize("where", ["around", "inside"])
def test_compiled(where: str) -> None:
    model, x = network()[4:], torch.randn(4, 512)
    region = autocast("cpu", torch.bfloat16)

    def loss_of(part: nn.Module) -> Tensor:
        with region if where == "around" else autocast("cpu", torch.bfloat16):
            return F.cross_entropy(part(x), TARGET)

    other = copy.deepcopy(model)
    wanted = gradients(other, loss_of(other))
    compiled = torch.compile(model if where == "around" else loss_of, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        model.zero_grad()
        found = gradients(model, loss_of(compiled) if where == "around" else compiled(model))
        assert all(torch.equal(got, right) for got, right in zip(found, wanted, strict=True))


class Decorated(nn.Module):
    """Its forward is a region, as torch's documentation writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch, while it traces
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_decorated_forward_compiled_then_eager(fullgraph: bool) -> None:
    model, x = Decorated(), torch.randn(2, 8)
    wanted = copy.deepcopy(model)(x)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=fullgraph)
    for call in (compiled, model, compiled):
        y = call(x)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, wanted)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch, while it traces
def test_one_region_object_compiled_then_eager() -> None:
    torch._dynamo.reset()
    layer, x, region = nn.Linear(8, 8), torch.randn(2, 8), autocast("cpu", torch.bfloat16)

    def called(x: Tensor) -> Tensor:
        with region:
            return layer(x)

    compiled = torch.compile(called, backend="aot_eager")
    first = compiled(x)
    eager = called(x)
    with region:
        inner = torch.compile(lambda x: layer(x) + 0, backend="aot_eager")(x), layer(x)
    assert all(torch.equal(y, eager) and y.dtype == torch.bfloat16 for y in (first, *inner))


def test_defaults_are_torchs() -> None:
    assert autocast("cpu").fast_dtype == torch.get_autocast_dtype("cpu")
    assert is_autocast_available("cpu")
    with autocast("cpu"):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_cache_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")
def test_the_cpu_stands_for_cuda_and_says_so() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = autocast("cuda")
    with region:
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with autocast("cuda", enabled=False):
            assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float32


@pytest.mark.parametrize("dtype", ["fp8", "mxfp4", torch.float8_e4m3fn, torch.float8_e5m2, torch.int8])
def test_narrower_formats_are_refused_with_the_way(dtype: object) -> None:
    with pytest.raises(ValueError, match=r'mixprec\.convert\(model, "fp8"\)'):
        autocast("cpu", dtype)  # pyright: ignore[reportArgumentType]


def test_what_is_no_region_is_refused() -> None:
    with pytest.raises(ValueError, match=r"torch\.float64"):
        autocast("cpu", torch.float64)
    with pytest.raises(TypeError, match="expected its name"):
        autocast(True)  # pyright: ignore[reportArgumentType]
    with pytest.raises(RuntimeError, match="meta"):
        autocast("meta")
    with pytest.raises(TypeError, match="function to decorate"):
        autocast("cpu")(3)  # pyright: ignore[reportArgumentType]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(2, 5, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 16)
        return self.out(torch.tanh(y @ y.mT) @ y)


TWICE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus()), (8, 16)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Tanh()),
        (2, 3, 8, 8),
    ),
    "attention": (Attention, (2, 5, 16)),
}


@pytest.mark.parametrize("dtype", DTYPES.values())
@pytest.mark.parametrize("kind", TWICE)
def test_a_gradient_penalty(kind: str, dtype: torch.dtype) -> None:
    make, shape = TWICE[kind]
    torch.manual_seed(0)
    model, x = make(), torch.randn(*shape, requires_grad=True)
    tolerance = 6 * torch.finfo(dtype).eps

    def run(enabled: bool) -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        with autocast("cpu", dtype, enabled=enabled), sdpa_kernel(SDPBackend.MATH):
            y = model(x).float().sum()
        (once,) = torch.autograd.grad(y, x, retain_graph=True)
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        assert (gradient - once).norm() <= tolerance * once.norm()
        penalty = (gradient.norm(dim=-1) - 1).square().mean()
        penalty.backward()
        return penalty.detach(), [p.grad for p in model.parameters() if p.grad is not None]

    (penalty, found), (wanted_penalty, wanted) = run(True), run(False)
    assert len(found) == len(wanted) > 0
    torch.testing.assert_close(penalty, wanted_penalty, atol=0, rtol=tolerance)
    for got, right in zip(found, wanted, strict=True):
        assert (got - right).norm() <= 2 * tolerance * right.norm()


def test_a_converted_model_in_a_region_has_no_second_derivative() -> None:
    model, x = nn.Linear(3, 1), torch.randn(2, 3, requires_grad=True)
    mixprec.convert(model, "bf16")
    with autocast("cpu", torch.bfloat16):
        y = model(x).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        gradient.square().sum().backward()
