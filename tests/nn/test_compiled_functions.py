"""Products that a model calls as functions, compiled in one graph: the eager numbers bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .models import gradients, tiny_gpt, tokens
from .test_convert import quiet_compiler
from .test_functions import CALLS as PRODUCTS
from .test_functions import Call, results
from .test_recomputed_passes import equal

_CASTS = LayerPrecision.of(input="mxfp4 sr", weight="e4m3[tensor]", grad_output="mxfp8 rceil")
CAST = Recipe(
    name="cast",
    rules=tuple(Rule(type=kind, precision=_CASTS, required=False) for kind in (None, "matmul", "qk", "pv")),
)
RECIPES = {"cast": CAST, "bf16": recipe("bf16", engine="emulated")}
_HEADS = ((2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 8))
CALLS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    **PRODUCTS,
    "linear": (F.linear, ((2, 4, 6), (5, 6), (5,))),
    "linear stack": (lambda x: F.linear(x, x), ((4, 6),)),
    "conv1d": (F.conv1d, ((2, 6, 9), (8, 6, 3), (8,))),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, 2, 1, 1, 2), ((2, 6, 7, 7), (8, 3, 3, 3))),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same", dilation=2), ((2, 6, 7, 7), (8, 6, 2, 3))),
    "conv3d": (F.conv3d, ((1, 3, 4, 4, 4), (5, 3, 2, 2, 2), (5,))),
    "conv_transpose1d": (F.conv_transpose1d, ((2, 6, 9), (6, 8, 3), (8,))),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), ((2, 6, 5, 5), (6, 4, 3, 3))),
    "attention": (F.scaled_dot_product_attention, _HEADS),
    "attention causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _HEADS),
}
QUICK = ("linear", "matmul", "bmm", "addmm", "einsum", "einsum ellipsis", "einsum of three", "conv2d", "attention")
_OTHERS = [name for name in CALLS if name not in (*QUICK, "chain_matmul")]


class WeightCall(Call):
    """The last operand is a parameter."""

    def __init__(self, call: Callable[..., Tensor], weight: Tensor) -> None:
        super().__init__(call)
        self.weight = nn.Parameter(weight)

    def forward(self, *operands: Tensor) -> Tensor:
        return self.call(*operands, self.weight)


def check(model: nn.Module, twin: nn.Module, operands: list[Tensor], chosen: str) -> None:
    torch._dynamo.reset()
    for one in (model, twin):
        convert(one, RECIPES[chosen])
    graph = torch.compile(twin, backend="aot_eager", fullgraph=True)
    for _ in range(2):  # the second pass draws other bits
        want, got = results(model, operands), results(graph, operands)
        assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            assert ours.grad is not None
            assert torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]


def operands_of(name: str) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape) for shape in CALLS[name][1]]


@quiet_compiler
@pytest.mark.parametrize("chosen", RECIPES)
@pytest.mark.parametrize("name", QUICK)
def test_a_call_in_one_graph(name: str, chosen: str) -> None:
    check(Call(CALLS[name][0]), Call(CALLS[name][0]), operands_of(name), chosen)


@pytest.mark.slow
@quiet_compiler
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("chosen", RECIPES)
@pytest.mark.parametrize("name", _OTHERS)
def test_any_call_in_one_graph(name: str, chosen: str) -> None:
    check(Call(CALLS[name][0]), Call(CALLS[name][0]), operands_of(name), chosen)


@quiet_compiler
@pytest.mark.parametrize("name", ["linear", "einsum", "einsum broadcast", "conv2d"])
def test_a_call_with_a_weight_in_one_graph(name: str) -> None:
    *operands, weight = operands_of(name)[:2]
    call = CALLS[name][0]
    check(WeightCall(call, weight), WeightCall(call, weight.clone()), operands, "cast")


def test_torchs_compiler_shows_grouped_mm_to_nobody() -> None:
    """What docs/support.md says of it: should this change, the experts' products can be cast in a graph too."""
    functions = [f for group in torch.overrides.get_overridable_functions().values() for f in group]
    assert torch._grouped_mm not in functions


@quiet_compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(("name", "blocks"), [("mxfp8", 1), ("fp4-all-the-way", 2), ("fp8-delayed", 2), ("bf16", 1)])
def test_blocks_compiled_by_themselves(name: str, blocks: int) -> None:
    """With a second block, of the same code, where each has random bits or scales of its own."""
    torch._dynamo.reset()
    eager, parts = tiny_gpt(blocks=blocks), tiny_gpt(blocks=blocks)
    for one in (eager, parts):
        convert(one, recipe(name, engine="emulated"))
    for block in parts.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
    for seed in (1, 2):
        assert equal(gradients(eager, tokens(seed)), gradients(parts, tokens(seed)))


@quiet_compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", ["mxfp8", "fp4-all-the-way"])
def test_compiled_blocks_in_a_checkpoint(name: str, reentrant: bool) -> None:
    """The same numbers where passes do not differ; refused where they do: compiled code knows of no pass."""
    torch._dynamo.reset()
    eager, parts = tiny_gpt(blocks=1), tiny_gpt(reentrant, blocks=1)
    for one in (eager, parts):
        convert(one, recipe(name, engine="emulated"))
    for block in parts.blocks:
        block.compile(backend="aot_eager", fullgraph=True)
    if name == "mxfp8":
        assert equal(gradients(eager, tokens()), gradients(parts, tokens()))
        return
    with pytest.raises(Exception, match=r"blocks\.0: a compiled part of a model is recomputed"):
        gradients(parts, tokens())
