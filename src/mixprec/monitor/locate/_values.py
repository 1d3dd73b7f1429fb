"""What is in a tensor, in a few numbers: its range, and how much of it is no number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

#: Short names of dtypes, and the largest finite number of each.
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}


@dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """A tensor as a reader needs it.

    Attributes:
        dtype: short name.
        shape: as it was.
        low: smallest finite element; NaN without any.
        high: largest finite element; NaN without any.
        zeros: how many are zero.
        nans: how many are NaN.
        positive: how many are infinite.
        negative: how many are negatively infinite.
    """

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    zeros: int
    nans: int
    positive: int
    negative: int

    @property
    def is_finite(self) -> bool:
        """Whether every element is."""
        return self.nans + self.positive + self.negative == 0

    @property
    def kind(self) -> str:
        """The worst that is in it: NaN, then inf, then -inf; empty where all is finite."""
        return "NaN" if self.nans else "inf" if self.positive else "-inf" if self.negative else ""

    @property
    def amax(self) -> float:
        """Largest finite magnitude; 0 without any."""
        return 0.0 if math.isnan(self.low) else max(abs(self.low), abs(self.high))

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "scalar"
        span = "no finite values" if math.isnan(self.low) else f"{self.low:.4g} to {self.high:.4g}"
        return f"{self.dtype} [{size}], {span}"


@torch.no_grad()
def facts_of(tensor: Tensor) -> TensorFacts:
    """The facts of a real or complex floating tensor."""
    values = _dense(tensor)
    finite = values[values.isfinite()]
    infinite = values.isinf()
    return TensorFacts(
        dtype=dtype_name(tensor.dtype),
        shape=tuple(tensor.shape),
        low=float(finite.min()) if finite.numel() else math.nan,
        high=float(finite.max()) if finite.numel() else math.nan,
        zeros=int((values == 0).sum()),
        nans=int(values.isnan().sum()),
        positive=int((infinite & (values > 0)).sum()),
        negative=int((infinite & (values < 0)).sum()),
    )


@torch.no_grad()
def is_finite(tensor: Tensor) -> bool:
    """Whether every element of a floating tensor is finite; any other tensor is."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0 or tensor.is_meta:
        return True
    return bool(_dense(tensor).isfinite().all())


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype."""
    return NAMES.get(dtype, str(dtype).removeprefix("torch."))


def limit_of(dtype: str) -> float | None:
    """The largest finite number of a dtype, by its short name."""
    named = {name: kind for kind, name in NAMES.items()}
    return torch.finfo(named[dtype]).max if dtype in named else None


def _dense(tensor: Tensor) -> Tensor:
    values = tensor.detach()
    if values.layout == torch.sparse_coo:
        values = values.coalesce().values()
    elif values.layout != torch.strided:
        values = values.values()
    return torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
