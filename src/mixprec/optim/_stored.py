"""What lies beside a weight, by the way it is kept: names, dtypes, and what a write from outside leaves of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ..kernels import StoredWeight, WeightKind, has_no_values, load_weight, store_weight
from ..specs import Weights
from ._wide_gradients import HALF_DTYPES

#: Name and dtype of what is kept beside a 16-bit weight.
EXTRAS: Mapping[WeightKind, tuple[str, torch.dtype]] = {
    "master": ("master", torch.float32),
    "split": ("remainder", torch.int16),
    "kahan": ("compensation", torch.bfloat16),
}
_BELOW_ONE = 1 - 2.0**-7  # one bf16 number below
EXTRA_NAMES = frozenset(name for name, _ in EXTRAS.values())


def weight_kind(weights: Weights, param: Tensor) -> WeightKind:
    """How a parameter is kept under a recipe's ``weights``; one of fp32 is its own full value.

    Raises:
        ValueError: an fp16 parameter under a way that is for bf16.
    """
    if param.dtype not in HALF_DTYPES or weights == "true":
        return "plain"
    if weights != "master" and param.dtype != torch.bfloat16:
        raise ValueError(
            f"weights='{weights}' keeps bf16 parameters, got one of {param.dtype} and shape {list(param.shape)}: use "
            "weights='master' for fp16, or model.to(torch.bfloat16)"
        )
    return weights


def refuse_sharded(param: Tensor, who: str, instead: str) -> None:
    """Raise a ``ValueError`` for a parameter that is spread over ranks (a DTensor)."""
    if hasattr(param, "device_mesh"):
        raise ValueError(
            f"{who} does not take sharded parameters, got a {type(param).__name__} of shape {list(param.shape)}: "
            f"{instead}"
        )


def begin(kind: WeightKind, param: Tensor) -> StoredWeight:
    """Keep a parameter from its present value on, which is exact."""
    weight = param.detach()
    if kind == "master":
        return StoredWeight(kind, weight, weight.float().contiguous())
    extra = torch.zeros(weight.shape, dtype=EXTRAS[kind][1], device=weight.device) if kind in EXTRAS else None
    return StoredWeight(kind, weight, extra)


def extra_of(kind: WeightKind, param: Tensor, extras: Mapping[str, Tensor]) -> Tensor | None:
    """What saved extras hold for a parameter, checked.

    Raises:
        ValueError: extras of another way to keep it, or of another shape or dtype.
    """
    name, dtype = EXTRAS.get(kind, ("", None))
    found = extras.get(name)
    if set(extras) == ({name} if name else set()) and (
        found is None or (found.shape == param.shape and found.dtype == dtype)
    ):
        return found
    told = ", ".join(f"{n} ({t.dtype} {list(t.shape)})" for n, t in sorted(extras.items())) or "nothing"
    expected = f"{name} ({dtype} {list(param.shape)})" if name else "nothing"
    raise ValueError(
        f"what is kept beside a {param.dtype} parameter of shape {list(param.shape)} is {expected}, got {told}: it was "
        "saved under another way to keep weights; load it by its full value (convert), or keep weights as it was saved"
    )


def load_nearest(stored: StoredWeight, value: Tensor) -> None:
    """Keep an fp32 value as exactly as its way allows, with no random bits."""
    kind = "plain" if stored.kind == "stochastic" else stored.kind
    store_weight(replace(stored, kind=kind), value)


@torch.no_grad()
def adopt_write(stored: StoredWeight) -> bool:
    """Follow a weight that was written from outside: what lies beside an element stays where it rounds to the weight.

    Returns:
        Whether anything beside the weight changed.
    """
    extra, weight = stored.extra, stored.weight
    if extra is None or has_no_values(weight):
        return False
    # A compensation of half a last place, which rounding may have made of less, is not taken for a whole one.
    lesser = (extra.float() * _BELOW_ONE).to(extra.dtype) if stored.kind == "kahan" else extra
    again = StoredWeight(stored.kind, torch.empty_like(weight), torch.empty_like(extra))
    store_weight(again, load_weight(replace(stored, extra=lesser)))
    differs = (again.weight != weight) & ~(again.weight.isnan() & weight.isnan())
    if stored.kind == "split":
        differs |= again.extra != extra  # of a pair that no storing gives, which is read without its remainder
    if not bool(differs.any()):
        return False
    extra.copy_(torch.where(differs, weight.float() if stored.kind == "master" else 0, extra))
    return True
