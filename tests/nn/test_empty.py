"""Nothing in: as from torch, an output of the right shape and gradients of zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mixprec import functional
from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

NAMES = ["bf16", "fp16", "fp8", "fp8-delayed", "mxfp8", "nvfp4"]
CASTS = ["mxfp8", "nvfp4", "e4m3", "e4m3[tensor]"]
RECIPES = {
    **{name: recipe(name, engine="emulated") for name in NAMES},
    **{
        cast: Recipe(name="casts", rules=(Rule(match="*", precision=LayerPrecision.uniform(cast)),))
        for cast in (*CASTS, "e4m3[tensor] delayed")
    },
}
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(8, 4), (0, 8)),
    "linear of three dimensions": (lambda: nn.Linear(8, 4), (2, 0, 8)),
    "no features": (lambda: nn.Linear(0, 4), (3, 0)),
    "no features, no bias": (lambda: nn.Linear(0, 4, bias=False), (3, 0)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (0, 3, 8)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3), (0, 3, 8, 8)),
    "conv2d, groups": (lambda: nn.Conv2d(4, 4, 3, groups=2, bias=False), (0, 4, 8, 8)),
    "conv2d, one tap": (lambda: nn.Conv2d(3, 4, 1), (0, 3, 8, 8)),
    "conv3d": (lambda: nn.Conv3d(3, 4, 3), (0, 3, 8, 8, 8)),
}
PRODUCTS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "bmm, no matrices": (torch.bmm, (0, 3, 4), (0, 4, 5)),
    "bmm, no rows": (torch.bmm, (2, 0, 4), (2, 4, 5)),
    "bmm, no sums": (torch.bmm, (2, 3, 0), (2, 0, 5)),
    "matmul, no rows": (torch.matmul, (0, 4), (4, 5)),
    "matmul, no columns": (torch.matmul, (3, 4), (4, 0)),
    "matmul, no sums": (torch.matmul, (3, 0), (0, 5)),
    "matmul, no batch": (torch.matmul, (0, 2, 3, 4), (2, 4, 5)),
    "einsum, no batch": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (0, 3, 4), (0, 4, 5)),
}


class Calls(nn.Module):
    """A product of activations."""

    def __init__(self, call: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.call, self.fc = call, nn.Linear(2, 2)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call(a, b)


def assert_zeros(got: Tensor | None, like: Tensor) -> None:
    assert got is not None
    assert (got.shape, got.dtype) == (like.shape, like.dtype)
    assert not got.count_nonzero()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_layer_of_nothing(name: str, layer: str, trained: bool) -> None:
    make, shape = LAYERS[layer]
    torch.manual_seed(0)
    model, x = nn.Sequential(make()).requires_grad_(trained), torch.randn(shape, requires_grad=True)
    expected = model(x.detach())
    convert(model, RECIPES[name])
    y = model(x)
    rounded = torch.float16 if name == "fp16" else torch.bfloat16 if name in NAMES else torch.float32
    assert y.dtype == torch.float32  # what leaves the model
    assert torch.equal(y, expected.to(rounded).float())
    y.sum().backward()
    assert_zeros(x.grad, x)
    for path, parameter in model.named_parameters() if trained else ():
        if shape[-1] == 0 and path.endswith("bias"):
            assert torch.equal(parameter.grad, torch.full_like(parameter, shape[0]))  # each row has it
        else:
            assert_zeros(parameter.grad, parameter)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_product_of_nothing(name: str, product: str, trained: bool) -> None:
    call, *shapes = PRODUCTS[product]
    a, b = torch.ones(shapes[0], requires_grad=True), torch.ones(shapes[1], requires_grad=trained)
    expected, model = call(a.detach(), b.detach()), Calls(call)
    convert(model, RECIPES[name])
    y = model(a, b)
    assert_zeros(y, expected.to(y.dtype))
    y.sum().backward()
    assert_zeros(a.grad, a)
    if trained:
        assert_zeros(b.grad, b)


@pytest.mark.parametrize("cast", [None, *CASTS, "e4m3[row]", "e4m3[128x128:fp32]", "int8[row]"])
def test_a_function_of_nothing(cast: str | None) -> None:
    x, w = torch.ones(3, 0, requires_grad=True), torch.ones(4, 0, requires_grad=True)
    bias = torch.arange(4.0)
    y = functional.linear(x, w, bias, precision=cast)
    assert torch.equal(y, bias.expand(3, 4))
    y.sum().backward()
    assert_zeros(x.grad, x)
    assert_zeros(w.grad, w)
    assert_zeros(functional.linear(x, w, precision=cast), torch.zeros(3, 4))
