"""What its producer keeps anyway is kept as it is: no bytes more, the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

CASTS = ["e4m3[tensor]", "mxfp8 rceil", "nvfp4", "mxfp4", "e4m3[1x128:e8m0]", "e2m1[4x8:e4m3]", "bf16", "mxfp8 rht32"]
KEEPERS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "in place": lambda: nn.ReLU(inplace=True),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softmax": lambda: nn.Softmax(1),
}


def converted(cast: str, *modules: nn.Module) -> nn.Sequential:
    model, precision = nn.Sequential(*modules), LayerPrecision.uniform(cast)
    rules = tuple(Rule(type=kind, precision=precision, required=False) for kind in ("Conv2d", "Linear"))
    convert(model, Recipe(name="tried", rules=rules, engine="emulated"), seed=3)
    return model


def kept_beside(model: nn.Module, x: Tensor) -> int:
    """Bytes that the last module keeps and no other does, parameters not counted."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes: list[dict[int, int]] = [{}, {}]

    def pack(index: int) -> Callable[[Tensor], Tensor]:
        def keep(t: Tensor) -> Tensor:
            storage = t.untyped_storage()
            if storage.data_ptr() not in own and t.numel() > 2:  # not the pass's random state
                sizes[index][storage.data_ptr()] = storage.nbytes()
            return t

        return keep

    with torch.autograd.graph.saved_tensors_hooks(pack(0), lambda t: t):
        x = model[:-1](x)
    with torch.autograd.graph.saved_tensors_hooks(pack(1), lambda t: t):
        y = model[-1](x)
    held = sum(size for address, size in sizes[1].items() if address not in sizes[0])
    y.sum().backward()
    return held


@pytest.mark.parametrize("keeper", KEEPERS)
def test_nothing_is_added_to_what_the_producer_keeps(keeper: str) -> None:
    x = torch.randn(2, 8, 8, 8, requires_grad=True)
    model = converted("mxfp8 rceil", nn.BatchNorm2d(8), KEEPERS[keeper](), nn.Conv2d(8, 4, 3))
    assert kept_beside(model, x) == 0
    model = converted("mxfp8 rceil", nn.Conv2d(8, 8, 1), KEEPERS[keeper](), nn.Flatten(), nn.Linear(512, 4))
    assert kept_beside(model, x) == 0


@pytest.mark.parametrize("cast", ["mxfp8 sr", "e4m3[tensor] delayed"])
def test_random_and_delayed_casts_keep_codes(cast: str) -> None:
    x = torch.randn(2, 8, 8, 8, requires_grad=True)
    model = converted(cast, nn.Identity(), nn.ReLU(), nn.Conv2d(8, 4, 3))
    assert x.numel() <= kept_beside(model, x) < 2 * x.numel()


def test_an_input_that_nobody_keeps_is_kept_as_codes() -> None:
    x = torch.randn(2, 8, 8, 8, requires_grad=True)
    for before in (nn.BatchNorm2d(8), nn.GELU(), nn.Identity()):
        assert kept_beside(converted("mxfp8", before, nn.Conv2d(8, 4, 3)), x) == x.numel() * 33 // 32


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    y = model(leaf)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)))
    assert leaf.grad is not None
    return [y.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("layer", ["conv", "linear"])
@pytest.mark.parametrize("cast", CASTS)
def test_the_numbers_are_those_of_codes(cast: str, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    last = nn.Conv2d(16, 6, 3, padding=1) if layer == "conv" else nn.Linear(64, 12)
    model = converted(cast, nn.Identity(), nn.ReLU(), last)
    inputs = [torch.randn(5, 16, size, size) if layer == "conv" else torch.randn(5, size, 64) for size in (4, 8, 5)]
    free = [gradients(model, x) for x in inputs]
    for module in ("_cast_convolution", "_saved_input"):
        monkeypatch.setattr(f"mixprec.nn.{module}.costs_nothing_to_keep", lambda x, cast: False)
    for x, got in zip(inputs, free, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(got, gradients(model, x), strict=True))


@pytest.mark.parametrize("reentrant", [True, False])
def test_under_checkpointing(reentrant: bool) -> None:
    """The region's input is made outside of it, by an operation that keeps it."""
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    model = converted("mxfp8 rceil", nn.Conv2d(4, 4, 3), nn.ReLU(), *convolutions)

    class Recomputed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(model[2:], model[:2](x), use_reentrant=reentrant)

    x = torch.randn(2, 4, 12, 12)
    want = gradients(model, x)
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    y = Recomputed()(leaf)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)))
    got = [y.detach(), leaf.grad, *(p.grad for p in model.parameters())]
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
