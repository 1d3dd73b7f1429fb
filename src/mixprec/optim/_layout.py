"""Where the tensors of one parameter lie in the state of an optimizer of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..kernels import StoredMoment, StoredWeight, WeightKind, load_moment, load_weight, store_moment
from ..specs import Moments, Weights
from ._stored import EXTRAS, begin, load_nearest, weight_kind

_FP32 = Moments()
_STEP = "step"
_SUFFIXES = ("_scales", "_powers")
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "e4m3": torch.uint8, "dynamic": torch.uint8}


@dataclass(frozen=True)
class MomentName:
    """A moment of an update rule.

    Attributes:
        name: its key in the state, as in torch's optimizer. 8-bit values have ``codes`` as theirs, so that torch's
            optimizer, which would take the codes for numbers, misses them.
        is_signed: whether it has negative numbers.
    """

    name: str
    is_signed: bool = True

    @property
    def codes(self) -> str:
        """Key of 8-bit values."""
        return f"{self.name}_codes"

    def values(self, state: Mapping[str, Any]) -> Tensor | None:
        """Its values in a state, however they are kept; ``None`` where they are missing."""
        found = state.get(self.name)
        return state.get(self.codes) if found is None else found


@dataclass(frozen=True)
class Layout:
    """How one parameter and its moments are kept.

    Attributes:
        kind: of the weight.
        moments: of the optimizer, with fp32 where the parameter is small, and nothing said that has no meaning.
    """

    kind: WeightKind
    moments: Moments

    @classmethod
    def of(cls, param: Tensor, weights: Weights, moments: Moments) -> Layout:
        """The layout of a parameter under a group's options.

        Raises:
            ValueError: a parameter that cannot be kept so.
        """
        return cls(weight_kind(weights, param), normal_moments(_FP32 if param.numel() < moments.small else moments))

    def weight(self, param: Tensor, state: MutableMapping[str, Any]) -> StoredWeight:
        """The weight as it lies in memory; what lies beside it is made where it is missing."""
        if self.kind not in EXTRAS:
            return StoredWeight(self.kind, param)
        name = EXTRAS[self.kind][0]
        if name not in state:
            state[name] = begin(self.kind, param).extra
        return StoredWeight(self.kind, param, state[name])

    def moment(self, name: MomentName, param: Tensor, state: MutableMapping[str, Any]) -> StoredMoment:
        """A moment as it lies in memory; zeros are made where it is missing."""
        values = name.values(state)
        if values is not None:
            return self._stored(name, values, state)
        stored = self._new_moment(name, param)
        state.update(self.moment_tensors(name, stored))
        if stored.scales is not None:
            store_moment(stored, torch.zeros(param.numel(), dtype=torch.float32, device=param.device))
        return stored

    def load_moment(self, name: MomentName, param: Tensor, state: MutableMapping[str, Any], value: Tensor) -> None:
        """Keep fp32 values of a moment that may be missing."""
        for key, _ in list(moments_of(state, (name,))):
            del state[key]
        store_moment(self.moment(name, param, state), value.to(param.device, torch.float32).reshape(param.shape))

    def moment_tensors(self, name: MomentName, stored: StoredMoment) -> dict[str, Tensor]:
        """The entries of a moment in the state."""
        scales, powers = (name.name + suffix for suffix in _SUFFIXES)
        values = name.name if stored.scales is None else name.codes
        found = {values: stored.values, scales: stored.scales, powers: stored.powers}
        return {key: tensor for key, tensor in found.items() if tensor is not None}

    def shapes(self, name: MomentName, param: Tensor) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Dtype and shape of a moment's entries."""
        tensors = self.moment_tensors(name, self._new_moment(name, torch.empty_like(param, device="meta")))
        return {key: (tensor.dtype, tuple(tensor.shape)) for key, tensor in tensors.items()}

    def _new_moment(self, name: MomentName, param: Tensor) -> StoredMoment:
        moments, device = self.moments, param.device
        dtype = _DTYPES[moments.kind]
        if dtype != torch.uint8:
            return StoredMoment(
                moments.kind, torch.zeros(param.shape, dtype=dtype, device=device), is_signed=name.is_signed
            )
        blocks = -(-param.numel() // moments.block)
        return StoredMoment(
            moments.kind,
            torch.zeros(param.numel(), dtype=dtype, device=device),
            scales=torch.zeros(blocks, dtype=torch.float32, device=device),
            powers=torch.ones(blocks, dtype=dtype, device=device) if moments.kind == "e4m3" else None,
            block=moments.block,
            expand=moments.expand,
            is_signed=name.is_signed,
        )

    def _stored(self, name: MomentName, values: Tensor, state: Mapping[str, Any]) -> StoredMoment:
        return StoredMoment(
            self.moments.kind,
            values,
            scales=state.get(name.name + _SUFFIXES[0]),
            powers=state.get(name.name + _SUFFIXES[1]),
            block=self.moments.block,
            expand=self.moments.expand,
            is_signed=name.is_signed,
        )


@lru_cache(maxsize=64)
def normal_moments(moments: Moments) -> Moments:
    """Equal for all that keep a moment alike."""
    if moments.kind in ("fp32", "bf16"):
        return Moments(kind=moments.kind, small=0)
    return replace(moments, expand=moments.expand or moments.kind == "dynamic", small=0)


def step_count(state: MutableMapping[str, Any]) -> Tensor:
    """The parameter's step counter: fp32, 0-d, on the CPU, as torch keeps it; made where it is missing."""
    if _STEP not in state:
        state[_STEP] = torch.zeros((), dtype=torch.float32)
    return state[_STEP]


def moments_of(state: Mapping[str, Any], names: tuple[MomentName, ...]) -> Iterator[tuple[str, Tensor]]:
    """The entries of a state that belong to moments."""
    for name in names:
        for key in (name.name, name.codes, *(name.name + suffix for suffix in _SUFFIXES)):
            if key in state:
                yield key, state[key]


def convert_state(
    param: Tensor, state: MutableMapping[str, Any], names: tuple[MomentName, ...], old: Layout, new: Layout
) -> None:
    """Keep otherwise what a state holds: the weight's full value and the moments' fp32 values move over.

    A stochastic or plain weight becomes the nearest 16-bit value.
    """
    if old == new:
        return
    if old.kind != new.kind:
        value = load_weight(old.weight(_as_it_was_kept(param, old), state))
        for name, _ in EXTRAS.values():
            state.pop(name, None)
        load_nearest(new.weight(param, state), value)
    for name in names:
        if name.values(state) is not None:
            new.load_moment(name, param, state, load_moment(old.moment(name, param, state)))


def _as_it_was_kept(param: Tensor, old: Layout) -> Tensor:
    """The 16-bit weight whose values a parameter of fp32 was loaded with; beside a master it may have any."""
    if old.kind not in EXTRAS or param.dtype != torch.float32:
        return param
    return param.detach().to(torch.bfloat16)
