"""``torch.autocast(enabled=False)`` inside a model: what its author keeps in fp32 stays in fp32 under every recipe."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .test_convert import quiet_compiler

LOW = LayerPrecision.uniform("mxfp4")
RECIPES = {
    "mxfp4": Recipe(name="mxfp4", rules=(Rule(precision=LOW), Rule(type="matmul", precision=LOW, required=False))),
    "bf16": recipe("bf16", engine="emulated"),
    "mxfp4 bf16": Recipe(name="mxfp4 bf16", rules=(Rule(precision=LOW),), compute_dtype="bf16", engine="emulated"),
}


class Router(nn.Module):
    """Four products, all of which its author wants in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.weight = nn.Linear(32, 32), nn.Parameter(torch.randn(32, 32))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(self.fc(x), self.weight)
        return (y @ y.t()) @ y


class Model(nn.Module):
    """A layer outside, a router inside the region; ``checkpointed`` recomputes the router, from inside or outside."""

    def __init__(self, checkpointed: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.outer, self.router, self.checkpointed = nn.Linear(32, 32), Router(), checkpointed

    def routed(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return self.router(x.float())

    def forward(self, x: Tensor) -> Tensor:
        x = self.outer(x)
        if self.checkpointed == "region":
            return torch.utils.checkpoint.checkpoint(self.routed, x, use_reentrant=False)
        with torch.autocast("cpu", enabled=False):
            if self.checkpointed == "module":
                return torch.utils.checkpoint.checkpoint(self.router, x.float(), use_reentrant=False)
            if self.checkpointed == "layer":
                y = torch.utils.checkpoint.checkpoint(self.router.fc, x.float(), use_reentrant=False)
                return F.linear(y, self.router.weight)
            return self.router(x.float())


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    y = model(x)
    y.square().mean().backward()
    return [y.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("name", RECIPES)
def test_the_region_stays_in_fp32_and_is_named(name: str) -> None:
    x, model = torch.randn(8, 32), Model()
    twin = Model()
    conversion = convert(model, RECIPES[name])
    with conversion.measured():
        got = gradients(model, x)
    audit = conversion.audit()
    assert {row.site for row in audit.rows if row.format == "fp32"} == {"router", "router.fc"}
    assert {row.site for row in audit.uncovered} == {"router", "router.fc"}
    assert {row.engine for row in audit.uncovered} == {"torch"}
    # The router's output is that of fp32 on the outer layer's output.
    outer = nn.Sequential(model.outer)
    with torch.no_grad():
        want = twin.router(outer(x).float())
    assert torch.equal(got[0], want)


@pytest.mark.parametrize("checkpointed", ["region", "module", "layer"])
@pytest.mark.parametrize("name", RECIPES)
def test_recomputation_knows_the_region(name: str, checkpointed: str) -> None:
    x = torch.randn(8, 32)
    plain, model = Model(), Model(checkpointed)
    if checkpointed == "layer":
        plain.router.forward = lambda x: F.linear(plain.router.fc(x), plain.router.weight)  # type: ignore[method-assign]
    convert(plain, RECIPES[name])
    convert(model, RECIPES[name])
    for got, want in zip(gradients(model, x), gradients(plain, x), strict=True):
        assert torch.equal(got, want)


@quiet_compiler
@pytest.mark.parametrize("name", RECIPES)
def test_a_compiled_region_is_the_eager_one(name: str) -> None:
    torch._dynamo.reset()  # each code object is compiled a limited number of times in a process
    x, plain, model = torch.randn(8, 32), Model(), Model()
    convert(plain, RECIPES[name])
    convert(model, RECIPES[name])
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for got, want in zip(gradients(compiled, x), gradients(plain, x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("name", RECIPES)
def test_a_region_around_the_model_is_not_its_authors(name: str) -> None:
    x, model = torch.randn(8, 32), Model()
    convert(model, RECIPES[name])
    want = model(x)
    with (
        torch.autocast("cpu", enabled=False),
        torch.autocast("cpu", torch.bfloat16),
        torch.autocast("cpu", enabled=False),
    ):
        assert torch.equal(model(x), want)


def test_a_module_decorated_with_the_region() -> None:
    class Decorated(nn.Linear):
        @torch.autocast("cpu", enabled=False)
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), Decorated(32, 32))
    plain = Decorated(32, 32)
    plain.load_state_dict(model[1].state_dict())
    convert(model, RECIPES["mxfp4"])
    x = torch.randn(4, 32)
    assert torch.equal(model(x), plain(nn.Sequential(model[0])(x)))
