"""Seconds on a machine that was measured: from its grids and curves."""

from __future__ import annotations

from ...hardware import CastCost, Curve, Grid, Measured
from ...specs import OPERANDS, Cast, LayerPrecision
from .._inventory import Product, Traffic
from ._families import ATTENTION, FUSED_RECURRENT, family_of, layer_family
from ._site import Site

#: Products of fused attention, forward and backward: the scores are made twice and have two gradients, the values one
#: and two.
_OF_ATTENTION = 7


class Machine:
    """Turns products, traffic and casts into seconds of a measured machine.

    Args:
        measured: its grids and curves.
        compute: the compute dtype.
    """

    def __init__(self, measured: Measured, compute: str) -> None:
        self._measured, self._compute = measured, compute
        self.notes: dict[str, None] = {}

    def product(self, product: Product, precision: LayerPrecision | None, site: Site) -> float:
        """Seconds of all calls of a product.

        Args:
            product: that is multiplied.
            precision: of its site.
            site: all products of its site, which fused operators run as one.
        """
        if product.kind == FUSED_RECURRENT:
            layer = max(site.flops, 1) / max(site.calls_of("fprop") / 2, 1)  # of two weights each
            return self._measured.operators["recurrent"].at(layer) * product.flops / layer * self._measured.cold
        if product.kind in ATTENTION:
            seconds = self._measured.products["attention"].at(product.batch, *_attended(product)) * self._measured.cold
            return product.calls * (seconds / _OF_ATTENTION + self._measured.call)
        seconds = self._grid(product, precision).at(*_canonical(product)) * self._measured.cold
        if product.batch > 1:
            seconds = product.batch * seconds + self._measured.operators["elementwise"].at(1)
        return product.calls * (seconds + self._measured.call)

    def traffic(self, traffic: Traffic) -> float:
        """Seconds of all calls of an operator."""
        calls = max(traffic.calls, 1)
        alone = self._curve(traffic).at((traffic.read + traffic.written) / calls)
        return calls * (alone * self._measured.cold + self._measured.call)

    def calling(self, traffic: Traffic) -> float:
        """Seconds that calling an operator takes however little it moves."""
        return max(traffic.calls, 1) * (self._curve(traffic).at(1) + self._measured.call)

    def casts(self, kind: str, precision: LayerPrecision | None, elements: tuple[int, int, int], calls: int) -> float:
        """Seconds that a site's layer takes more than a plain one.

        Args:
            kind: of the layer.
            precision: of its site; ``None``: the compute dtype alone.
            elements: of the input, the weight and the output's gradient, of all calls.
            calls: of the layer.
        """
        family = layer_family(kind)
        if precision is None:
            if self._compute == "fp32":
                return 0.0
            cost = self._cost(family, self._compute)
            if kind == "pv":  # the values and the output are rounded, the scores are not
                return cost.element * sum(elements[1:])
            if kind == "qk":  # which runs once more in the backward pass
                return (calls * cost.call + cost.element * sum(elements[:2])) / 2
            return calls * cost.call + cost.element * sum(elements)
        by_role: dict[str, int] = dict(zip(("input", "weight", "grad_output"), elements, strict=True))
        total = 0.0
        for operand in OPERANDS:
            cast = precision.operand(operand)
            if cast is not None or self._compute != "fp32":
                cost = self._cost(family, cast or self._compute)
                total += (calls * cost.call / 3 + cost.element * by_role[operand.partition("_")[2]]) / 2
        return total

    def _curve(self, traffic: Traffic) -> Curve:
        curves, family = self._measured.operators, family_of(traffic.operation)
        backward = f"{family} backward"
        if traffic.pass_ == "backward" and backward in curves:
            return curves[backward]
        return curves.get(family, curves["elementwise"])

    def _grid(self, product: Product, precision: LayerPrecision | None) -> Grid:
        grids = self._measured.products
        if layer_family(product.kind) == "convolution" and product.gemm in grids:
            return grids[product.gemm]
        if product.batch > 1:
            return grids["batched fp32"]
        is_plain = precision is None or not any(precision.operand(name) for name in OPERANDS)
        # A CPU's narrow products round their sums, and a weight's gradient is not rounded.
        return (
            grids[self._compute] if is_plain and product.gemm != "wgrad" and self._compute in grids else grids["fp32"]
        )

    def _cost(self, family: str, cast: Cast | str) -> CastCost:
        """What was measured for a cast, else for the nearest to it, else the dearest."""
        costs = {
            key.split(" ", 1)[1]: cost for key, cost in self._measured.casts.items() if key.startswith(f"{family} ")
        }
        text = str(cast)
        if text in costs:
            return costs[text]
        if not costs:
            return CastCost(call=0.0, element=0.0)
        head = text.split(" ", 1)[0]
        near = [key for key in costs if key.split(" ", 1)[0] == head]
        chosen = max(near or costs, key=lambda key: (costs[key].element, costs[key].call))
        self.notes[f"{family} layers were not measured with '{text}': taken as '{chosen}'"] = None
        return costs[chosen]


def _attended(product: Product) -> tuple[int, int]:
    """(length, width of a head) of one of fused attention's products."""
    m, n, k = product.m, product.n, product.k
    scores = {("qk", "fprop"): (m, n, k), ("pv", "dgrad"): (m, n, k), ("pv", "fprop"): (m, k, n)}
    rows, columns, width = scores.get((product.kind, product.gemm), (m, k, n))
    return round((rows * columns) ** 0.5), width


def _canonical(product: Product) -> tuple[int, int, int]:
    """(pixels, output channels, patch) of a convolution's product, which are measured by these; else (M, N, K)."""
    if layer_family(product.kind) != "convolution":
        return product.m, product.n, product.k
    if product.gemm == "dgrad":
        return product.m, product.k, product.n
    return (product.k, product.m, product.n) if product.gemm == "wgrad" else (product.m, product.n, product.k)
