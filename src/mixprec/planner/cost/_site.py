"""A site's products together: what its casts apply to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ...specs import Cast, LayerPrecision
from .._inventory import Product, Traffic
from ._terms import Bound, TimeTerm

_CASTS = {
    "fprop": ("fprop_input", "fprop_weight"),
    "dgrad": ("dgrad_grad_output", "dgrad_weight"),
    "wgrad": ("wgrad_grad_output", "wgrad_input"),
}


@dataclass(frozen=True)
class Site:
    """A site's products, and what its layer's operands are."""

    kind: str
    products: tuple[Product, ...]

    @property
    def flops(self) -> int:
        return sum(product.flops for product in self.products)

    def calls_of(self, gemm: str) -> int:
        """Of all its products of that name."""
        return sum(product.calls for product in self.products if product.gemm == gemm)

    @property
    def calls(self) -> int:
        return max((product.calls for product in self.products if product.gemm == "fprop"), default=1)

    @property
    def elements(self) -> tuple[int, int, int]:
        """Of the input, the weight and the output's gradient."""
        forward = [product.elements for product in self.products if product.gemm == "fprop"]
        return (sum(e[0] for e in forward), sum(e[1] for e in forward), sum(e[2] for e in forward))


def sites_of(products: Iterable[Product]) -> dict[str, Site]:
    """The sites of products, in order of first appearance."""
    found: defaultdict[str, list[Product]] = defaultdict(list)
    for product in products:
        found[product.site].append(product)
    return {name: Site(rows[0].kind, tuple(rows)) for name, rows in found.items()}


def casts_of(product: Product, precision: LayerPrecision | None) -> tuple[Cast | None, Cast | None]:
    """Of the left and the right operand."""
    if precision is None or product.gemm not in _CASTS:
        return None, None
    left, right = _CASTS[product.gemm]
    return precision.operand(left), precision.operand(right)


def traffic_term(traffic: Traffic, dtype: str, seconds: float, bound: Bound, moved: int) -> TimeTerm:
    """The term of an operator that multiplies nothing."""
    return TimeTerm(
        site=traffic.site, operation=traffic.operation, format=dtype, seconds=seconds, bound=bound, bytes=moved
    )
