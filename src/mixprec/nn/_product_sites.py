"""From two operands to their product: which one is a weight, which site that makes it, how it is multiplied."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor

from ._linear import linear
from ._matmul import matmul
from ._once import refuse_transforms
from ._site import ConversionState, Site
from ._weights import Side, kind_of, side_of_weight

_CASTABLE = (torch.float32, torch.bfloat16, torch.float16)


def is_castable(*tensors: Tensor | None) -> bool:
    """Whether these are tensors of torch's own class that casts take.

    Quantized and other classes multiply by themselves; fp64, integers and complex numbers stay what they are.
    """
    kinds = (Tensor, nn.Parameter, FakeTensor)
    return all(t is None or (type(t) in kinds and t.dtype in _CASTABLE) for t in tensors)


def refuse_transformed(state: ConversionState, *tensors: Tensor) -> None:
    """Refuse ``torch.func``'s transforms of what rules may be about: they hide which operand is a weight."""
    if state.is_16bit or state.functions:
        refuse_transforms("", *tensors)


def site_of(state: ConversionState, a: Tensor, b: Tensor, side: Side) -> Site | None:
    """The site of ``a @ b`` if a rule gives it casts: a layer's where one of them is a weight."""
    if side == "neither":
        return state.casts_of("matmul") if min(a.dim(), b.dim()) > 1 else None
    weight = a if side == "left" else b
    w = a.mT if side == "left" else b
    return state.casts_of(kind_of(weight), tuple(w.shape[-2:][::-1]))


def product(state: ConversionState, a: Tensor, b: Tensor, *, wide: bool = False) -> Tensor | None:
    """``torch.matmul(a, b)`` in the casts that a rule gives it, or else in the compute dtype.

    A weight has the casts of a weight on whichever side it stands.

    Args:
        state: of the conversion.
        a: the left operand.
        b: the right one.
        wide: whether the fp32 sums are wanted.

    Returns:
        ``None`` where the product is torch's own: fp32 without casts, other tensor classes and dtypes.
    """
    if not is_castable(a, b) or a.dim() == 0 or b.dim() == 0:
        return None
    refuse_transformed(state, a, b)
    side = side_of_weight(state, a, b)
    site = site_of(state, a, b, side)
    if site is None and not state.is_16bit:
        return None
    return multiplied(a, b, side, site or state.functional, wide=wide)


def multiplied(a: Tensor, b: Tensor, side: Side, site: Site, *, wide: bool = False) -> Tensor:
    """``torch.matmul(a, b)`` under a site; the operand on ``side`` is its weight."""
    if side == "left":
        y = multiplied(_turned(b), a.mT, "right", site, wide=wide)
        return y if b.dim() == 1 else y.mT
    if side == "right" and b.dim() == 2 and not wide:
        return linear(a, b.t(), None, site)
    return matmul(a, b, site, wide=wide, has_weight=side == "right")


def _turned(t: Tensor) -> Tensor:
    return t if t.dim() == 1 else t.mT
