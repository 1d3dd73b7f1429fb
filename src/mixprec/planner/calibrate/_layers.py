"""Seconds of whole layers: fused ones by their FLOPs, and what a cast adds to a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...hardware import CastCost, Curve, Grid
from ...nn import convert
from ...specs import LayerPrecision, Recipe, Rule
from ._operators import rising
from ._stopwatch import Stopwatch

_STEPS, _SEQUENCES = 32, 16
_CHAIN = 4
_DTYPES = ("bf16", "fp16")


@dataclass(frozen=True)
class _Case:
    """A layer (or several in a row), its input, elements of its operands, and (M, N, K) of fprop and dgrad."""

    layer: Callable[[], nn.Module]
    shape: tuple[int, ...]
    elements: int
    layers: int = 1
    narrow: tuple[tuple[int, int, int], ...] = ()


def attention_grid(watch: Stopwatch, sizes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> Grid:
    """Seconds of fused attention, forward and backward, by (heads of all sequences, length, width of a head).

    A mask of what comes later saves a CPU's kernel little at these lengths; none is given. What the softmax costs does
    not grow with the width, so that FLOPs alone do not tell the time.

    Args:
        watch: measures.
        sizes: of the three.
    """
    heads, lengths, widths = sizes

    def make(count: int, length: int, width: int) -> Callable[[], None]:
        shape = (max(1, count // 4), length, min(4, count), width)
        q, k, v = (torch.randn(shape).transpose(1, 2).requires_grad_() for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v).backward(v.detach())

    calls = [make(count, length, width) for count in heads for length in lengths for width in widths]
    return Grid(heads, lengths, widths, tuple(watch.seconds(call)[0] for call in calls))


def recurrent_curve(watch: Stopwatch, widths: tuple[int, ...]) -> Curve:
    """Seconds of an LSTM layer over 32 steps of 16 sequences, forward and backward, by the FLOPs of its products."""
    points: list[tuple[float, float]] = []
    for width in widths:
        layer = nn.LSTM(width, width, batch_first=True)
        flops = 3 * 2 * (_SEQUENCES * _STEPS) * (4 * width) * (2 * width)
        points.append((flops, watch.seconds(_step(layer, torch.randn(_SEQUENCES, _STEPS, width)))[0]))
    return Curve(rising(points))


def cast_costs(
    watch: Stopwatch, casts: tuple[str, ...], families: tuple[str, ...], products: Mapping[str, Grid]
) -> dict[str, CastCost]:
    """What each cast, and each 16-bit compute dtype, adds to each family of layers.

    Args:
        watch: measures.
        casts: in their one-line form, or ``"bf16"`` or ``"fp16"`` for the compute dtype.
        families: ``"linear"``, ``"convolution"``, ``"recurrent"``.
        products: as measured: what a layer's narrow products save is no part of its casts.
    """
    costs = {
        (family, cast): _cost(watch, family, cast, products)
        for family in families
        for cast in _measured_for(family, casts)
    }
    return {f"{family} {cast}": cost for (family, cast), cost in costs.items() if cost is not None}


def _measured_for(family: str, casts: tuple[str, ...]) -> tuple[str, ...]:
    """All casts of linear layers; of convolutions one for each format and granularity, for time's sake."""
    if family == "linear":
        return casts
    if family == "recurrent":
        return tuple(cast for cast in casts if cast in _DTYPES)  # they can have no casts
    return tuple({cast.split(" ", 1)[0]: cast for cast in reversed(casts)}.values())


def _cost(watch: Stopwatch, family: str, cast: str, products: Mapping[str, Grid]) -> CastCost | None:
    """A line through the extra seconds of two sizes of layer, by elements; of a cast that the layer refuses none."""
    points: list[tuple[int, float]] = []
    for case in _CASES[family]:
        torch.manual_seed(0)
        low = case.layer()
        try:
            convert(low, _recipe(cast))
        except ValueError:
            return None
        saved = sum(products["fp32"].at(*size) - products[cast].at(*size) for size in case.narrow if cast in products)
        points.append((case.elements, _extra(watch, case, low) + saved))
    (small, fast), (large, slow) = points
    element = max((slow - fast) / (large - small), 0.0)
    return CastCost(call=max(fast - element * small, 0.0), element=element)


def _extra(watch: Stopwatch, case: _Case, low: nn.Module) -> float:
    """Seconds that a converted layer's step takes more than a plain one's."""
    x = torch.randn(case.shape)
    fast, slow = watch.seconds(_step(case.layer(), x), _step(low, x))
    return (slow - fast) / case.layers


def _recipe(cast: str) -> Recipe:
    if cast in _DTYPES:
        return Recipe(name=cast, compute_dtype="bf16" if cast == "bf16" else "fp16")
    return Recipe(name="measured", rules=(Rule(precision=LayerPrecision.uniform(cast)),))


def _step(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    x = x.clone().requires_grad_()

    def step() -> None:
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        y.backward(torch.ones_like(y))

    return step


def _linear(width: int) -> Callable[[], nn.Module]:
    return _chain(lambda: nn.Linear(width, width, bias=False))


def _convolution() -> nn.Module:
    return nn.Conv2d(16, 16, 3, padding=1, bias=False)


def _chain(layer: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Several layers in a row: what a pass costs once is spread over them, as it is in a model."""
    return lambda: nn.Sequential(*(layer() for _ in range(_CHAIN)))


_CASES: dict[str, tuple[_Case, _Case]] = {
    "linear": (
        _Case(_linear(32), (64, 32), 64 * 64 + 1024, _CHAIN, ((64, 32, 32),) * 2),
        _Case(_linear(128), (2048, 128), 2048 * 256 + 16384, _CHAIN, ((2048, 128, 128),) * 2),
    ),
    "convolution": (
        _Case(_chain(_convolution), (1, 16, 8, 8), 64 * 144 + 2304 + 64 * 16, _CHAIN),
        _Case(_chain(_convolution), (64, 16, 8, 8), 4096 * 144 + 2304 + 4096 * 16, _CHAIN),
    ),
    "recurrent": (
        _Case(lambda: nn.LSTM(32, 32, batch_first=True), (4, 32, 32), 128 * 64 + 8192 + 256 * 128),
        _Case(lambda: nn.LSTM(128, 128, batch_first=True), (16, 32, 128), 512 * 256 + 131072 + 1024 * 512),
    ),
}
