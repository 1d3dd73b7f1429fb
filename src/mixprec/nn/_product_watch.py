"""Who sees the products of a conversion whole: operands before their casts, and the result that goes on.

Compiled code shows nothing: a trace must not change what is outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from ._convolution_arguments import ConvolutionGeometry

if TYPE_CHECKING:
    from ._site import Site

Operator = Literal["linear", "matmul", "convolution"]


@dataclass(frozen=True, kw_only=True)
class SeenProduct:
    """A product of a site that has casts, as it was called in the forward pass.

    Attributes:
        site: module path, and what is called there for a function.
        kind: class of the site's module; ``""`` where a function was called.
        operator: which of the three ways to multiply.
        x: the input, of any shape that the operator takes.
        weight: [N, K] of a linear map, [..., K, N] of ``matmul``, [N, K, ...] of a convolution.
        has_weight: whether ``weight`` is one; of a product of activations it is the right operand.
        geometry: of a convolution.
    """

    site: str
    kind: str
    operator: Operator
    x: Tensor
    weight: Tensor
    has_weight: bool = True
    geometry: ConvolutionGeometry | None = None


class ProductWatch(Protocol):
    """Who is shown each product that has casts."""

    def product(self, seen: SeenProduct, y: Tensor) -> Tensor:
        """A product and its result [..., N] (of a convolution [batch, N, ...]); gives what goes on in its place."""
        ...


def is_torchs_own(site: Site, *operands: Tensor) -> bool:
    """Whether torch's own product does: it is watched, and otherwise nothing would be done to fp32 operands on a CPU.

    Elsewhere torch may multiply fp32 in less.
    """
    state = site.state
    return (
        site.casts.is_only_shown
        and state.product_watcher is not None
        and state.listener is None
        and state.watcher is None
        and state.compute_dtype == torch.float32
        and all(x.dtype == torch.float32 and x.is_cpu for x in operands)
    )


def shown(
    y: Tensor,
    site: Site,
    operator: Operator,
    operands: tuple[Tensor, Tensor],
    *,
    has_weight: bool = True,
    geometry: ConvolutionGeometry | None = None,
) -> Tensor:
    """Show a result to whoever watches the site's products; give what goes on in its place."""
    watch = site.state.product_watcher
    if watch is None or site.casts.is_plain:
        return y
    x, weight = operands
    seen = SeenProduct(
        site=site.name or site.state.where(),
        kind=site.kind,
        operator=operator,
        x=x,
        weight=weight,
        has_weight=has_weight,
        geometry=geometry,
    )
    return watch.product(seen, y)
