"""The exact value of every weight that was saved, from its 16 bits and what was kept beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from ..kernels import StoredWeight, WeightKind, load_weight


def full_weights(weights: Mapping[str, Tensor], kept: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Give what every parameter stands for: fp32, or its own dtype where nothing was kept beside it.

    Args:
        weights: as the model held them, by name.
        kept: beside them: ``master``, ``remainder`` or ``compensation``, by name.

    Raises:
        ValueError: something else is kept, or beside a weight that is not there.

    Example:
        >>> w = torch.tensor([1.0], dtype=torch.bfloat16)
        >>> full_weights({"w": w}, {"w": {"remainder": torch.tensor([1], dtype=torch.int16)}})["w"].item()
        1.0000001192092896
    """
    without = sorted(kept.keys() - weights.keys())
    if without:
        raise ValueError(f"extras are saved for {', '.join(without[:5])}, of which no weight is saved")
    return {name: full_weight(name, weight, kept.get(name, {})) for name, weight in weights.items()}


def full_weight(name: str, weight: Tensor, extras: Mapping[str, Tensor]) -> Tensor:
    """What one parameter stands for; a ``weight`` that was widened since is taken back to the 16 bits that it had."""
    if not extras:
        return weight
    (kind, extra), *others = extras.items()
    if others or kind not in _VALUES:
        raise ValueError(f"beside {name} is saved {', '.join(extras)}, expected one of {', '.join(_VALUES)}")
    return _VALUES[kind](weight, extra)


def _stored_as(kind: WeightKind) -> Callable[[Tensor, Tensor], Tensor]:
    def value(weight: Tensor, extra: Tensor) -> Tensor:
        sixteen = weight.detach().to(torch.bfloat16).contiguous()
        return load_weight(StoredWeight(kind, sixteen, extra.to(sixteen.device).contiguous()))

    return value


_VALUES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "master": lambda _, extra: extra,
        "remainder": _stored_as("split"),
        "compensation": _stored_as("kahan"),
    }
)
#: Names of what may lie beside a 16-bit weight.
EXTRA_KINDS = frozenset(_VALUES)
