"""GEMMs outside of the recipe, custom functions without custom_fwd, and what is covered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixprec.monitor import check_step
from mixprec.specs import Recipe
from mixprec.training import prepare

NAME = "size that blocks do not divide"
X = torch.linspace(-1, 1, 128).reshape(4, 32)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w.to(x.dtype).T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return grad @ w.to(grad.dtype), (grad.T @ x.to(grad.dtype)).to(w.dtype)


class Scaled(torch.autograd.Function):
    """Changes elements only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * 2, None


class Wrapped(torch.autograd.Function):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type="cpu"))


class Calls(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function, self.first = function, nn.Linear(32, 32)
        self.weight = nn.Parameter(torch.eye(32))

    def forward(self, x: Tensor) -> Tensor:
        return self.function.apply(self.first(x), self.weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_custom_function_that_multiplies_under_autocast(dtype: torch.dtype) -> None:
    def step_of(model: nn.Module) -> Any:
        def step() -> Tensor:
            with torch.autocast("cpu", dtype):
                return model(X).float().square().mean()

        return step

    model = Calls(Product)
    (warning,) = [f for f in check_step(model, step_of(model)) if f.severity != "note"]
    assert warning.name == "custom function without custom_fwd"
    assert warning.evidence["function"] == "Product"
    for healthy in (Calls(Wrapped), Calls(Scaled)):
        assert "custom function without custom_fwd" not in [f.name for f in check_step(healthy, step_of(healthy))]


def test_fp32_needs_no_decoration() -> None:
    model = Calls(Product)
    assert len(check_step(model, lambda: model(X).square().mean())) == 0


@pytest.mark.parametrize("recipe", ["bf16", "mxfp8"])
def test_a_gemm_that_the_recipe_does_not_reach(recipe: str) -> None:
    model = Calls(Product)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    found = session.check(lambda: model(X).square().mean())
    told = [f for f in found if f.name == "GEMM outside of the recipe"]
    assert told
    assert told[0].severity == "warning"
    assert told[0].evidence["share of FLOPs"] > 0.3
    assert sum(f.name == "GEMM outside of the recipe" for f in found) == len({f.site for f in told})
    covered = nn.Linear(32, 32)
    session = prepare(covered, torch.optim.SGD(covered.parameters(), lr=0.1), recipe)
    assert [f for f in session.check(lambda: covered(X).square().mean()) if f.severity != "note"] == []


def test_sizes_that_blocks_do_not_divide_are_a_note_with_a_rule() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 20))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "mxfp8")
    (note,) = [f for f in session.check(lambda: model(X).square().mean()) if f.name == NAME]
    assert (note.severity, note.site) == ("note", "1")
    front, rules = session.recipe.to_toml().split("[[rules]]", 1)
    mended = Recipe.from_toml(f"{front}{note.rule}\n[[rules]]{rules}")
    mild = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 20))
    session = prepare(mild, torch.optim.SGD(mild.parameters(), lr=0.1), mended)
    assert NAME not in [f.name for f in session.check(lambda: mild(X).square().mean())]


def test_a_rule_that_is_about_no_layer_is_a_note() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.LSTM(32, 32))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "mxfp8")
    found = session.check(lambda: model(X)[0].square().mean())
    told = [f.message for f in found if f.name == "rule that does less than it says"]
    assert told == [note for note in session.notes if note.startswith("recipe mxfp8: ")]
