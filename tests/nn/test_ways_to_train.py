"""Every recipe in every way that people train: the plain loop's numbers, bit for bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mixprec import convert
from mixprec.specs import recipe, recipe_names
from tests.nn.models import TinyGPT, loss_of, tiny_gpt, tokens

NARROW = tuple(name for name in recipe_names() if name not in ("auto", "fp32") and not name.startswith("bf16-"))
Gradients = dict[str, Tensor]


class SmallResNet(nn.Module):
    """Convolutions of three kinds around a residual, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=2, padding_mode="reflect")
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(self.down(x + self.grouped(x)))
        return self.head(x.mean((2, 3)))


def small_resnet() -> SmallResNet:
    torch.manual_seed(0)
    return SmallResNet()


def images() -> Tensor:
    return torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def converted(model: nn.Module, name: str) -> nn.Module:
    convert(model, recipe(name, engine="emulated"))
    return model


def gradients(model: nn.Module, loss: Tensor) -> Gradients:
    model.zero_grad()
    loss.backward()  # pyright: ignore[reportUnknownMemberType]
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def gpt_gradients(model: nn.Module, seed: int = 1) -> Gradients:
    return gradients(model, loss_of(model, tokens(seed)))


def equal(a: Gradients, b: Gradients) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", NARROW)
def test_recomputation(name: str, reentrant: bool) -> None:
    plain, recomputed = converted(tiny_gpt(), name), converted(tiny_gpt(reentrant), name)
    for seed in (1, 2):  # the second step has the histories and random bits of the first
        assert equal(gpt_gradients(plain, seed), gpt_gradients(recomputed, seed))


@pytest.mark.parametrize("name", NARROW)
def test_accumulation(name: str) -> None:
    apart, together = converted(tiny_gpt(), name), converted(tiny_gpt(), name)
    parts = [gpt_gradients(apart, seed) for seed in (1, 2, 3)]
    together.zero_grad()
    for seed in (1, 2, 3):
        loss_of(together, tokens(seed)).backward()
    sums = {n: parts[0][n] + parts[1][n] + parts[2][n] for n in parts[0]}
    assert equal(sums, {n: p.grad for n, p in together.named_parameters() if p.grad is not None})


@pytest.mark.parametrize("name", NARROW)
def test_frozen_layers_change_no_other_gradient(name: str) -> None:
    whole, frozen = converted(tiny_gpt(), name), converted(tiny_gpt(), name)
    for p in frozen.get_submodule("blocks.0").parameters():
        p.requires_grad_(False)
    for seed in (1, 2):
        want, got = gpt_gradients(whole, seed), gpt_gradients(frozen, seed)
        assert equal({n: g for n, g in want.items() if not n.startswith("blocks.0.")}, got)


@pytest.mark.parametrize("name", NARROW)
def test_evaluation_is_the_forward_pass_of_training(name: str) -> None:
    model = converted(tiny_gpt(), name).eval()
    training = model(tokens())
    with torch.no_grad():
        evaluated = model(tokens())
    with torch.inference_mode():
        inferred = model(tokens())
    assert torch.equal(training, evaluated)
    assert torch.equal(evaluated, inferred)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("name", NARROW)
def test_copies_go_on_alike(name: str, again: Callable[[nn.Module], nn.Module]) -> None:
    model = converted(tiny_gpt(), name)
    gpt_gradients(model)
    other = again(model)
    assert type(other) is type(model)
    assert equal(gpt_gradients(model, 2), gpt_gradients(other, 2))
    assert equal(gpt_gradients(model, 3), gpt_gradients(other, 3))  # and do not draw from one another's bits


@pytest.mark.parametrize("name", NARROW)
def test_a_tied_head_gets_both_gradients(name: str) -> None:
    tied, apart = tiny_gpt(), tiny_gpt()
    tied.head.weight = tied.embed.weight
    apart.head.weight = nn.Parameter(apart.embed.weight.detach().clone())
    want, got = gpt_gradients(converted(apart, name)), gpt_gradients(converted(tied, name))
    both = want.pop("head.weight") + want.pop("embed.weight")
    torch.testing.assert_close(got.pop("embed.weight"), both, rtol=1e-6, atol=1e-7)
    assert equal(got, want)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", ["gpt", "resnet"])
@pytest.mark.parametrize("name", NARROW)
def test_compiled_in_one_graph(name: str, kind: str) -> None:
    torch._dynamo.reset()
    make: Callable[[], nn.Module] = tiny_gpt if kind == "gpt" else small_resnet
    inputs = tokens() if kind == "gpt" else images()
    eager = converted(make(), name)
    traced = converted(make(), name)
    graph = torch.compile(traced, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        want = gradients(eager, eager(inputs).square().mean())
        assert equal(want, gradients(traced, graph(inputs).square().mean()))


def test_the_models_train() -> None:
    assert isinstance(tiny_gpt(), TinyGPT)
    model = converted(small_resnet(), "mxfp8")
    assert all(
        g.isfinite().all() and g.abs().max() > 0 for g in gradients(model, model(images()).square().mean()).values()
    )
