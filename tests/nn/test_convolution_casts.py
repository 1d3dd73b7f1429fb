"""Convolutions under every kind of cast, against float64 convolutions of the exactly rounded operands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import Accumulator, Cast, Granularity, LayerPrecision, Recipe, Rule

from .casts import PRECISIONS
from .oracle import Oracle, assert_near, rounding_of

REFUSED = {"e4m3[row]", "e4m3[1x128:fp32]", "e4m3[1x32:fp32]", "e4m3[128x128:fp32]", "e4m3[16x8:fp32]",
           "e4m3[1x32:fp32] rht16", "int8[row]", "int8[row] sr", "int4[1x32:fp32]", "nf4[1x64:fp32]", "fp8-block fp32",
           "tiles of two lengths", "input alone", "gradient alone", "int8 by tiles and rows", "narrow sums",
           "narrow sums of tiles"}  # fmt: skip
TAKEN = {
    **{name: precision for name, precision in PRECISIONS.items() if name not in REFUSED},
    "rows of weights": LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[row]", grad_output="e5m2[tensor]"),
    "int8": LayerPrecision.of(input="int8[tensor]", weight="int8[row]", grad_output="int8[tensor] sr"),
    "tiles": LayerPrecision.of(input="e2m1[4x8:e4m3]", weight="e2m1[4x8:e8m0]", grad_output="e2m1[4x8:e4m3]"),
}


@dataclass(frozen=True)
class Shape:
    dims: int
    channels: tuple[int, int]
    size: int = 7
    options: tuple[tuple[str, Any], ...] = ()

    def layer(self) -> nn.Module:
        kind = getattr(nn, f"Conv{self.dims}d")
        return kind(*self.channels, 3, **dict(self.options))


SHAPES = {
    "1d": Shape(1, (19, 21), 11, (("padding", 1), ("stride", 2))),
    "2d": Shape(2, (19, 21), 6, (("padding", 1),)),
    "groups": Shape(2, (38, 26), 5, (("groups", 2), ("stride", 2), ("dilation", 2), ("padding", 2))),
    "depthwise": Shape(2, (6, 6), 5, (("groups", 6), ("padding", 1))),
    "multiplied depthwise": Shape(1, (5, 10), 9, (("groups", 5), ("dilation", 2))),
    "whole blocks": Shape(2, (64, 64), 8, (("padding", 1), ("groups", 2))),
    "blocks of images": Shape(2, (16, 32), 4, (("padding", 1),)),
    "3d": Shape(3, (5, 6), 4, (("padding", 1),)),
}


def fits(cast: Cast, extent: int) -> bool:
    tile = cast.granularity
    return tile.kind == "block" and tile.outer == 1 and not cast.transform and extent % tile.reduction == 0


def ending_with(cast: Cast, extent: int) -> Cast:
    """A group that is smaller than a block ends it."""
    tile = cast.granularity
    if tile.kind != "block" or tile.outer != 1 or tile.reduction <= extent or cast.transform:
        return cast
    return replace(cast, granularity=Granularity("block", 1, extent))


class ConvolutionOracle:
    """The operands of a convolution: tap by tap along channels, and along batch and positions, group by group."""

    def __init__(self, oracle: Oracle, groups: int) -> None:
        self.oracle, self.groups = oracle, groups

    def activation(self, x: Tensor, operand: str) -> Tensor:
        """[N, C, ...] reduced along the channels of each group."""
        cast = self.oracle.precision.operand(operand)
        if cast is None or cast.granularity.kind in ("none", "tensor"):
            return self._flat(x, operand)
        ended = ending_with(cast, x.shape[1] // self.groups)
        if fits(ended, x.shape[1] // self.groups):  # random words are counted in the tensor as it lies
            oracle = self._with(operand, ended)
            return oracle.transposed_values(x.flatten(0, 1).flatten(1), operand).t().reshape(x.shape)
        rows = x.unflatten(1, (self.groups, -1)).movedim((1, 0), (0, 1)).movedim(2, -1)  # [G, N, ..., C / G]
        made = self._batch(rows.flatten(1, -2), operand)
        made = made.unflatten(1, rows.shape[1:-1]).movedim(-1, 2)  # [G, N, C' / G, ...]
        return made.movedim(0, 1).flatten(1, 2)

    def weight(self, w: Tensor, operand: str) -> Tensor:
        """[K, C / G, ...] reduced along C / G (fprop), or along the outputs of a group (dgrad)."""
        cast = self.oracle.precision.operand(operand)
        if cast is None or cast.granularity.kind in ("none", "tensor"):
            return self._flat(w, operand)
        grouped = w.unflatten(0, (self.groups, -1)).flatten(3)  # [G, K / G, C / G, taps]
        if operand == "dgrad_weight":
            grouped = grouped.transpose(1, 2)
        if cast.granularity.kind == "row":
            made = self.oracle.values(grouped.flatten(2).flatten(0, 1), operand).view(grouped.shape)
        else:
            stacked = self._batch(grouped.movedim(3, 1).flatten(0, 1), operand)
            made = stacked.unflatten(0, (self.groups, -1)).movedim(1, 3)
        if operand == "dgrad_weight":
            made = made.transpose(1, 2)
        return made.flatten(0, 1).unflatten(2, w.shape[2:])

    def positions(self, x: Tensor, operand: str) -> Tensor:
        """[N, C, ...] reduced along batch and positions."""
        cast = self.oracle.precision.operand(operand)
        if cast is None or cast.granularity.kind in ("none", "tensor"):
            return self._flat(x, operand)
        if fits(cast, x.shape[2:].numel()):
            return self.oracle.values(x.flatten(0, 1).flatten(1), operand).view(x.shape)
        tile, size = cast.granularity, x.shape[2:].numel()
        if tile.outer == 1 and tile.reduction % size == 0 and not cast.transform:  # whole images in a block
            oracle = self._with(operand, replace(cast, granularity=Granularity("block", size, tile.reduction // size)))
            return oracle.transposed_values(x.flatten(1), operand).t().reshape(x.shape)
        matrix = x.movedim(1, -1).flatten(0, -2)
        group = x.shape[1] // self.groups
        missing = -group % max(cast.granularity.outer, 1)
        padded = F.pad(matrix.unflatten(1, (self.groups, group)), (0, missing)).flatten(1)
        made = self.oracle.transposed_values(padded, operand).t()
        made = made.unflatten(1, (self.groups, -1))[:, :, :group].flatten(1)
        return made.unflatten(0, (x.shape[0], *x.shape[2:])).movedim(-1, 1)

    def _with(self, operand: str, cast: Cast) -> Oracle:
        return replace(self.oracle, precision=replace(self.oracle.precision, **{operand: cast}))

    def _flat(self, x: Tensor, operand: str) -> Tensor:
        return self.oracle.values(x.flatten(1), operand).view(x.shape)

    def _batch(self, x_BRC: Tensor, operand: str) -> Tensor:
        cast = self.oracle.precision.operand(operand)
        padded = F.pad(x_BRC, (0, 0, 0, -x_BRC.shape[1] % max(cast.granularity.outer, 1)))
        made = self.oracle.values(padded.flatten(0, 1), operand)
        return made.unflatten(0, padded.shape[:2])[:, : x_BRC.shape[1]]


def convolve(layer: Any, x: Tensor, w: Tensor) -> Tensor:
    f = getattr(F, f"conv{x.dim() - 2}d")
    groups = x.shape[1] // w.shape[1]
    return f(x, w, None, layer.stride, layer.padding, layer.dilation, groups)


def unfolded(layer: Any, x: Tensor) -> Tensor:
    """[N * positions, G, C / G * taps] of the input as each tap sees it."""
    if x.dim() == 3:
        options = {n: (1, getattr(layer, n)[0]) for n in ("dilation", "stride")}
        columns = F.unfold(x.unsqueeze(2), (1, 3), padding=(0, layer.padding[0]), **options)
    else:
        columns = F.unfold(x, (3, 3), layer.dilation, layer.padding, layer.stride)
    return columns.transpose(1, 2).flatten(0, 1).unflatten(1, (layer.groups, -1))


def weight_gradient(layer: Any, want: ConvolutionOracle, x: Tensor, grad: Tensor) -> Tensor:
    cast = want.oracle.precision.wgrad_input
    if cast is None or not cast.transform:
        w = torch.zeros_like(layer.weight, dtype=torch.float64, requires_grad=True)
        y = convolve(layer, want.positions(x, "wgrad_input"), w)
        return torch.autograd.grad(y, w, want.positions(grad, "wgrad_grad_output"))[0]
    columns, gradients = unfolded(layer, x), grad.movedim(1, -1).flatten(0, -2).unflatten(1, (layer.groups, -1))
    parts = []
    for group in range(layer.groups):
        g = want.oracle.transposed_values(gradients[:, group].contiguous(), "wgrad_grad_output")
        parts.append(g @ want.oracle.transposed_values(columns[:, group].contiguous(), "wgrad_input").t())
    return torch.cat(parts).view(layer.weight.shape)


def check(precision: LayerPrecision, shape: Shape, compute_dtype: str = "fp32") -> None:
    torch.manual_seed(0)
    layer: Any = shape.layer()
    model = nn.Sequential(layer)
    x = torch.randn(3, shape.channels[0], *(shape.size,) * shape.dims)
    w, b = layer.weight.detach().clone(), layer.bias.detach().clone()
    grad = torch.randn_like(layer(x))
    rules = (Rule(precision=precision),)
    conversion = convert(
        model, Recipe(name="tried", rules=rules, compute_dtype=compute_dtype, engine="emulated"), seed=7
    )  # pyright: ignore[reportArgumentType]
    leaf = x.clone().requires_grad_()
    with conversion.measured():
        y = model(leaf)
        y.backward(grad)
    audit = conversion.audit()
    assert not audit.uncovered
    assert {row.site for row in audit.rows} == {"0"}
    assert {gemm for row in audit.rows for gemm in row.gemm.split(" + ")} == {"fprop", "dgrad", "wgrad"}
    each = {row.flops // len(row.gemm.split(" + ")) for row in audit.rows}  # both gradients may come from one call
    assert len(each) == 1 or (precision.wgrad_input is not None and precision.wgrad_input.transform)

    dgrad, wgrad = precision.dgrad_grad_output, precision.wgrad_grad_output
    both = dgrad is not None and wgrad is not None and not wgrad.transform
    outputs = grad.shape[1] // layer.groups
    crosswise = both and fits(ending_with(dgrad, outputs), outputs) and fits(wgrad, grad.shape[2:].numel())
    oracle = Oracle(precision, compute_dtype, seed=7, crosswise=crosswise)
    want = ConvolutionOracle(oracle, layer.groups)
    near = rounding_of(compute_dtype)
    bias = b.to({"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[compute_dtype]).double()
    a, v = want.activation(x, "fprop_input"), want.weight(w, "fprop_weight")
    assert_near(y.detach(), convolve(layer, a, v) + bias.view(-1, *(1,) * shape.dims), near)

    g, v = want.activation(grad, "dgrad_grad_output"), want.weight(w, "dgrad_weight")
    probe = torch.zeros_like(x, dtype=torch.float64, requires_grad=True)
    assert_near(leaf.grad, torch.autograd.grad(convolve(layer, probe, v), probe, g)[0], near)
    assert_near(layer.weight.grad, weight_gradient(layer, want, x, grad))
    assert_near(layer.bias.grad, grad.to(y.dtype).double().sum([0, *range(2, grad.dim())]), max(near, 1e-5))


def is_transformed(precision: LayerPrecision) -> bool:
    return any(c is not None and c.transform for c in (precision.wgrad_input, precision.wgrad_grad_output))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TAKEN)
def test_three_products_of_rounded_operands(name: str, shape: str) -> None:
    if shape == "3d" and is_transformed(TAKEN[name]):
        with pytest.raises(
            ValueError, match=r"0: wgrad_\w+ is '.*but a transform in wgrad needs a 1-D or 2-D convolution"
        ):
            check(TAKEN[name], SHAPES[shape])
        return
    check(TAKEN[name], SHAPES[shape])


@pytest.mark.parametrize("compute_dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", TAKEN)
def test_a_16_bit_compute_dtype_rounds_before_and_after(name: str, compute_dtype: str) -> None:
    check(TAKEN[name], SHAPES["groups"], compute_dtype)


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("by_function", [False, True])
def test_what_a_convolution_cannot_multiply_is_refused_with_its_name(name: str, by_function: bool) -> None:
    precision = PRECISIONS[name]

    class Caller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return F.conv2d(x, self.weight)

    model = nn.Sequential(nn.ReLU(), Caller() if by_function else nn.Conv2d(3, 4, 3))
    chosen = Recipe(name="tried", rules=(Rule(precision=precision, required=False),))
    operand = (
        "accumulator" if precision.accumulator else r"(fprop_input|fprop_weight|dgrad_grad_output|dgrad_weight) is '"
    )
    with pytest.raises(ValueError, match=rf"^1: .*{operand}"):
        converted_output(model, chosen)


def converted_output(model: nn.Module, chosen: Recipe) -> Tensor:
    convert(model, chosen)
    return model(torch.randn(1, 3, 5, 5))


MODES = ("zeros", "reflect", "replicate", "circular")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("padding", [1, "same", "valid"])
@pytest.mark.parametrize("compute_dtype", ["fp32", "bf16"])
def test_padding_modes(mode: str, dims: int, padding: Any, compute_dtype: str) -> None:
    """Rounding to a tensor's scale and padding commute, so that torch's own layer on rounded values is the oracle."""
    if mode == "reflect" and padding == "valid":
        padding = 2
    torch.manual_seed(0)
    layer = getattr(nn, f"Conv{dims}d")(4, 6, (3, 2, 3)[:dims], padding=padding, padding_mode=mode, dilation=2)
    x = torch.randn(2, 4, *(7,) * dims)
    precision = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]")
    oracle = Oracle(precision, compute_dtype)
    twin = getattr(nn, f"Conv{dims}d")(4, 6, (3, 2, 3)[:dims], padding=padding, padding_mode=mode, dilation=2).double()
    with torch.no_grad():
        twin.weight.copy_(oracle.values(layer.weight.flatten(1), "fprop_weight").view_as(layer.weight))
        twin.bias.copy_(layer.bias)
    want = twin(oracle.values(x.flatten(1), "fprop_input").view_as(x))
    model = nn.Sequential(layer)
    convert(
        model, Recipe(name="tried", rules=(Rule(precision=precision),), compute_dtype=compute_dtype, engine="emulated")
    )  # pyright: ignore[reportArgumentType]
    near = rounding_of(compute_dtype) * (1 if compute_dtype == "fp32" else 2)  # the bias is rounded too
    assert_near(model(x).detach(), want.detach(), near)
    assert_near(
        model(x[0]).detach(), model(x)[0].detach().double() if compute_dtype == "fp32" else want[0].detach(), 0.2
    )
    unbatched = model(x[0])
    assert unbatched.shape == want.shape[1:]
    unbatched.sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_function_is_the_layer(dims: int) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, f"Conv{dims}d")(6, 8, 3, padding="same", stride=1, groups=2)

    class Caller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(layer.weight.detach()), nn.Parameter(layer.bias.detach())

        def forward(self, x: Tensor) -> Tensor:
            return getattr(F, f"conv{dims}d")(x, self.weight, self.bias, padding="same", groups=2)

    x, models = torch.randn(2, 6, *(5,) * dims), (nn.Sequential(layer), nn.Sequential(Caller()))
    results = []
    for model in models:
        conversion = convert(model, Recipe(name="mx", rules=(Rule(precision=LayerPrecision.uniform("mxfp8")),)))
        leaf = x.clone().requires_grad_()
        with conversion.measured():
            y = model(leaf)
            y.backward(torch.ones_like(y))
        assert {(row.site, row.format) for row in conversion.audit().rows} == {("0", "mxfp8")}
        results.append((y, leaf.grad, *(p.grad for p in model.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_integer_sums_over_long_reductions_are_exact() -> None:
    torch.manual_seed(0)
    x, w = torch.randint(-127, 128, (2, 40, 9, 9)).float(), torch.randint(-127, 128, (3, 40, 7, 7)).float()
    x[0, 0, 0, 0] = w[0, 0, 0, 0] = 127.0  # so that one step is one
    layer = nn.Conv2d(40, 3, 7, bias=False)
    with torch.no_grad():
        layer.weight.copy_(w)
    convert(
        model := nn.Sequential(layer), Recipe(name="i", rules=(Rule(precision=LayerPrecision.uniform("int8[tensor]")),))
    )
    want = F.conv2d(x.double(), w.double())
    assert torch.equal(model(x).detach().double(), want.float().double())


def test_a_frozen_convolution_is_quantized_once_and_gets_no_gradient(count_casts: Any) -> None:
    layer = nn.Conv2d(8, 8, 3).requires_grad_(False)
    model = nn.Sequential(layer)
    convert(model, Recipe(name="mx", rules=(Rule(precision=LayerPrecision.uniform("mxfp8")),)))
    x = torch.randn(2, 8, 5, 5, requires_grad=True)
    model(x).sum().backward()
    with count_casts() as weights:
        model(x).sum().backward()  # the second use makes the codes
    assert (weights.of_shape(72, 8), weights.of_shape(8, 72)) == (1, 1)  # the taps as matrices; the weight as it lies
    with count_casts() as weights:
        model(x).sum().backward()
    assert not any(weights.of_shape(*shape) for shape in ((72, 8), (8, 72), (8, 8, 9)))
    assert layer.weight.grad is None


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("cast", ["mxfp8 rceil", "nvfp4-2d", "e4m3[tensor]", "e4m3[row:e8m0] rceil"])
def test_the_memory_format_changes_no_number(cast: str, groups: int) -> None:
    results = []
    for memory in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=groups)).to(memory_format=memory)
        x = torch.randn(2, 64, 8, 8).to(memory_format=memory).requires_grad_()
        convert(model, Recipe(name="low", rules=(Rule(precision=LayerPrecision.uniform(cast)),)))
        y = model(x)
        y.square().sum().backward()
        results.append((y.detach(), x.grad, model[0].weight.grad))
    for got, want in zip(*results, strict=True):
        assert_near(got, want.double())


def test_accumulator_by_type() -> None:
    """A recipe with narrow sums serves a model of both kinds, where convolutions have a rule of their own."""
    narrow = LayerPrecision.uniform("e4m3[tensor]", accumulator=Accumulator(mantissa_bits=14))
    rules = (Rule(type="Conv2d", precision=LayerPrecision.uniform("e4m3[tensor]")), Rule(precision=narrow))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(36, 2))
    convert(model, Recipe(name="both", rules=rules))
    assert torch.isfinite(model(torch.randn(1, 3, 5, 5))).all()


@pytest.mark.parametrize("name", [name for name in TAKEN if not is_transformed(TAKEN[name])])
def test_results_lie_as_those_of_torch(name: str) -> None:
    """A model may take views of them."""
    layer = nn.Conv2d(19, 6, 3)
    convert(model := nn.Sequential(layer), Recipe(name="tried", rules=(Rule(precision=TAKEN[name]),)))
    x = torch.randn(2, 19, 5, 5, requires_grad=True)
    y = model(x)
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert y.is_contiguous()
    assert dx.is_contiguous()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_for_images_of_several_sizes() -> None:
    """Sizes that a compiler knows as symbols only: blocks in an image, over images, and ending within one."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1))
    convert(model, Recipe(name="tried", rules=(Rule(precision=LayerPrecision.uniform("mxfp8")),), engine="emulated"))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for size in (8, 4, 6, 2, 12):
        x = torch.randn(4, 16, size, size)
        torch._dynamo.maybe_mark_dynamic(x, 1)
        results = []
        for run in (model, compiled):
            model.zero_grad()
            y = run(x)
            y.square().sum().backward()
            results.append((y.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)))
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True)), size
