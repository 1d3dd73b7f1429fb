"""What a tensor's values are like, in a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_SHORT = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, kw_only=True)
class Range:
    """The values of a tensor.

    Attributes:
        dtype: short name.
        shape: of the tensor.
        low: smallest finite value; 0 where there is none.
        high: largest finite value.
        zeros: elements that are 0.
        nan: elements that are NaN.
        plus_inf: that are +inf.
        minus_inf: that are -inf.
        elements: how many there are.

    Example:
        >>> x = range_of(torch.tensor([1.0, -2.0, torch.inf]))
        >>> x.low, x.high, x.plus_inf, x.kind
        (-2.0, 1.0, 1, 'inf')
    """

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    zeros: int
    nan: int
    plus_inf: int
    minus_inf: int
    elements: int

    @property
    def amax(self) -> float:
        """Largest finite magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def bad(self) -> int:
        """Elements that are not finite."""
        return self.nan + self.plus_inf + self.minus_inf

    @property
    def kind(self) -> str:
        """``"NaN"``, ``"inf"`` or ``"-inf"``, whatever comes first of what is there; empty where all is finite."""
        return "NaN" if self.nan else "inf" if self.plus_inf else "-inf" if self.minus_inf else ""

    @property
    def only_minus_inf(self) -> bool:
        """Whether -inf is all that is not finite in it, as in a mask."""
        return self.minus_inf == self.bad > 0


def is_measured(value: object) -> bool:
    """Whether a value is a tensor whose elements can be looked at: real or complex, dense, with memory."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type == "meta":
        return False
    return (value.is_floating_point() or value.is_complex()) and value.numel() > 0


def is_finite(x: Tensor) -> bool:
    """Whether every element of a measured tensor is finite."""
    return bool(torch.isfinite(plain(x)).all())


def own(x: Tensor) -> Tensor:
    """What this rank has of a sharded tensor; any other as it is."""
    to_local = getattr(x, "to_local", None)
    return x if to_local is None else to_local()


def plain(x: Tensor) -> Tensor:
    """A measured tensor's elements as real numbers of a dtype that torch can compare; of a sharded one this rank's."""
    x = own(x)
    x = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    return x.float() if x.dtype.itemsize == 1 else x


@torch.no_grad()
def range_of(x: Tensor) -> Range:
    """The values of a measured tensor."""
    values = plain(x)
    finite = torch.isfinite(values)
    known = values[finite]
    low, high = (0.0, 0.0) if known.numel() == 0 else (known.min().item(), known.max().item())
    counts = [values.isnan(), values == math.inf, values == -math.inf, values == 0]
    nan, plus, minus, zeros = (int(torch.count_nonzero(where)) for where in counts)
    return Range(
        dtype=short_name(x.dtype),
        shape=tuple(x.shape),
        low=low,
        high=high,
        zeros=zeros,
        nan=nan,
        plus_inf=plus,
        minus_inf=minus,
        elements=values.numel(),
    )


def short_name(dtype: torch.dtype) -> str:
    """A dtype as the rest of the library writes it."""
    name = str(dtype).removeprefix("torch.")
    return _SHORT.get(name, name)


def limit_of(dtype: str) -> float:
    """Largest finite value of a dtype, by its short name; infinite where it is not known."""
    long = {short: name for name, short in _SHORT.items()}.get(dtype, dtype)
    found = getattr(torch, long, None)
    return torch.finfo(found).max if isinstance(found, torch.dtype) and found.is_floating_point else math.inf


def ranges_of(values: object) -> tuple[Range, ...]:
    """Ranges of the measured tensors in nested containers."""
    return tuple(range_of(x) for x in tensor_leaves(values) if is_measured(x))


def tensor_leaves(value: object) -> list[Tensor]:
    """The tensors in nested containers, in torch's own order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
