"""Weights and moments in numbers: one pass over them, before each update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from ...distributed import local_values
from ...guard import StateNumbers
from ...optim import KeptWeights

_WIDE = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})


class StateMeter:
    """Measures the largest magnitude of every weight and moment; ``torch.aminmax`` reads each of them once.

    A weight that is kept as a 16-bit copy of a master is that master. Moments of 8 bits are looked at by their scales.

    Args:
        model: whose parameters give the names.
        kept: weights, by the optimizer's name.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights]) -> None:
        self._model, self._kept = model, kept
        self._names: dict[Parameter, str] = {}
        self._extremes: dict[tuple[torch.device, torch.dtype, int], _Extremes] = {}

    def measure(self, *, with_spread: bool) -> StateNumbers:
        """Measure now.

        Args:
            with_spread: whether the largest magnitude of each matrix is compared with its root mean square: a second
                pass over the weights.
        """
        weights, moments = self._tensors()
        magnitudes = self._magnitudes([*weights.values(), *moments.values()])
        found = dict(zip([*weights, *moments], magnitudes, strict=True))
        own = {name: found[name] for name in weights}
        return StateNumbers(
            weights=own,
            moments={name: found[name] for name in moments},
            spread=_spread(weights, own) if with_spread else {},
        )

    def _tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        weights, moments = dict[str, Tensor](), dict[str, Tensor]()
        for kept in self._kept.values():
            masters = {p: extras["master"] for p, extras in kept.extras().items() if "master" in extras}
            for param in kept.parameters():
                weights[self._name(param)] = local_values(masters.get(param, param.detach()))
            for param, tensors in kept.moments().items():
                name = self._name(param)
                for kind, tensor in tensors.items():
                    if tensor.dtype in _WIDE:
                        moments[f"{name} ({kind})"] = local_values(tensor)
        return weights, moments

    def _magnitudes(self, tensors: Sequence[Tensor]) -> list[float]:
        alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for i, tensor in enumerate(tensors):
            alike.setdefault((tensor.device, tensor.dtype), []).append(i)
        found = [0.0] * len(tensors)
        for (device, dtype), indices in alike.items():
            key = (device, dtype, len(indices))
            if key not in self._extremes:
                self._extremes[key] = _Extremes(len(indices), dtype, device)
            told = self._extremes[key].magnitudes([tensors[i] for i in indices])
            for i, magnitude in zip(indices, told, strict=True):
                found[i] = magnitude
        return found

    def _name(self, param: Parameter) -> str:
        """By the model, which is asked anew only where a parameter is new: sharding replaces them."""
        name = self._names.get(param)
        if name is None:
            self._names = {p: name for name, p in self._model.named_parameters()}
            name = self._names.setdefault(param, "")
        return name


class _Extremes:
    """Room for the least and the largest element of some tensors alike: written in place, read at once.

    Of 63 tensors of a small GPT this takes 0.14 ms, and 0.35 ms where each extreme is a tensor of its own.
    """

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device) -> None:
        self._lows, self._highs = torch.zeros(2, count, dtype=dtype, device=device).unbind()
        self._places = list(zip(self._lows.unbind(), self._highs.unbind(), strict=True))

    @torch.no_grad()  # torch refuses ``out`` where gradients are tracked
    def magnitudes(self, tensors: Sequence[Tensor]) -> list[float]:
        """The largest magnitude of each; NaN where an element is, 0 of an empty one."""
        for tensor, (low, high) in zip(tensors, self._places, strict=True):
            if tensor.numel():
                torch.aminmax(tensor, out=(low, high))
            else:
                low.zero_()
                high.zero_()
        return torch.maximum(self._highs, -self._lows).tolist()  # which passes NaN on


def _spread(weights: Mapping[str, Tensor], largest: Mapping[str, float]) -> dict[str, float]:
    matrices = {name: w for name, w in weights.items() if w.dim() > 1 and w.numel()}
    if not matrices:
        return {}
    norms: Sequence[Tensor] = torch._foreach_norm(list(matrices.values()))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    device = norms[0].device
    told = torch.stack([norm.to(device, torch.float64) for norm in norms]).tolist()
    return {
        name: largest[name] * math.sqrt(w.numel()) / norm
        for (name, w), norm in zip(matrices.items(), told, strict=True)
        if norm > 0.0 and math.isfinite(norm)
    }
