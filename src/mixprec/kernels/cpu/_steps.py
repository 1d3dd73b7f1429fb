"""From the slots of an optimizer's step to what the kernels take: layouts, and one list of addresses for all slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypedDict

import torch
from torch import Tensor

from mixprec.specs import MomentKind

from .._contract import Draw
from .._optimizer_contract import AdamWRule, Kept, Rule, Slot, StoredMoment, StoredWeight, WeightKind
from . import _native

DTYPES = {
    torch.float32: _native.Dtype.f32,
    torch.bfloat16: _native.Dtype.bf16,
    torch.float16: _native.Dtype.f16,
}
_WEIGHTS: dict[WeightKind, _native.WeightKind] = {
    "plain": _native.WeightKind.plain,
    "master": _native.WeightKind.master,
    "split": _native.WeightKind.split,
    "stochastic": _native.WeightKind.stochastic,
    "kahan": _native.WeightKind.kahan,
}
_MOMENTS: dict[MomentKind, _native.MomentKind] = {
    "fp32": _native.MomentKind.fp32,
    "bf16": _native.MomentKind.bf16,
    "e4m3": _native.MomentKind.e4m3,
    "dynamic": _native.MomentKind.dynamic,
}
_MomentKey = tuple[MomentKind, int, bool, bool]
_NO_MOMENT = (0, 0, 0)
# Where in a slot's places a step brings something new.
_SLOT_PLACES, _GRADIENT, _SEED, _OFFSET = 12, 1, 4, 5


def native_step(slots: Sequence[Slot], gradients: Sequence[Tensor]) -> tuple[list[_native.Layout], list[int]]:
    """Layouts and addresses of slots whose gradients, laid out in a row, are given."""
    layouts: list[_native.Layout] = []
    places: list[int] = []
    for slot, gradient in zip(slots, gradients, strict=True):
        layouts.append(_layout(gradient.dtype, *_layout_key(slot.weight, slot.moments)))
        places += _slot_places(slot.weight, slot.moments, gradient.data_ptr(), slot.draw)
    return layouts, places


class NativeSteps:
    """Steps over weights and moments that lie where they lay: only gradients, draws and the rule are new in each."""

    def __init__(self, kept: Sequence[Kept], run: Callable[[], _native.Run]) -> None:
        self._run = run
        self._keys = [_layout_key(*one) for one in kept]
        self._places = [place for one in kept for place in _slot_places(*one, 0, Draw())]
        self._dtypes: list[torch.dtype] = []
        self._layouts: list[_native.Layout] = []

    def __call__(self, gradients: Sequence[Tensor], rule: Rule, seed: int, offsets: Sequence[int]) -> None:
        """One step."""
        straight = straight_gradients(gradients)
        dtypes = [gradient.dtype for gradient in straight]
        if dtypes != self._dtypes:
            self._layouts = [_layout(dtype, *key) for dtype, key in zip(dtypes, self._keys, strict=True)]
            self._dtypes = dtypes
        places = self._places.copy()  # so that no gradient's address is kept
        places[_GRADIENT::_SLOT_PLACES] = list(map(Tensor.data_ptr, straight))
        places[_SEED::_SLOT_PLACES] = [seed] * len(straight)
        places[_OFFSET::_SLOT_PLACES] = offsets
        _native.optimizer_step(self._layouts, places, native_rule(rule), self._run())


def straight_gradients(gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    """Gradients whose elements lie in a row; the given ones where all do."""
    if all(map(Tensor.is_contiguous, gradients)):
        return gradients
    return [gradient.contiguous() for gradient in gradients]


class WeightPlaces(TypedDict):
    """Arguments about a weight."""

    kind: _native.WeightKind
    dtype: _native.Dtype
    weight: int
    extra: int
    n: int
    values: int


def weight_places(stored: StoredWeight, values: Tensor) -> WeightPlaces:
    """Where a weight lies, and where its values do."""
    return {
        "kind": _WEIGHTS[stored.kind],
        "dtype": DTYPES[stored.weight.dtype],
        "weight": stored.weight.data_ptr(),
        "extra": _address(stored.extra),
        "n": values.numel(),
        "values": values.data_ptr(),
    }


class MomentPlaces(TypedDict):
    """Arguments about a moment."""

    layout: _native.MomentLayout
    stored: int
    scales: int
    powers: int
    n: int
    values: int


def moment_places(stored: StoredMoment, values: Tensor) -> MomentPlaces:
    """Where a moment lies, and where its values do."""
    codes, scales, powers = _places(stored)
    return {
        "layout": _moment(*stored.layout),
        "stored": codes,
        "scales": scales,
        "powers": powers,
        "n": values.numel(),
        "values": values.data_ptr(),
    }


def native_rule(rule: Rule) -> _native.Rule:
    """A rule's constants, rounded to fp32."""
    if isinstance(rule, AdamWRule):
        return _native.adamw_rule(
            factor=rule.factor,
            decay=rule.decay,
            beta1=rule.beta1,
            alpha1=rule.alpha1,
            beta2=rule.beta2,
            alpha2=rule.alpha2,
            rate=rule.rate,
            correction=rule.correction,
            eps=rule.eps,
        )
    return _native.sgd_rule(
        factor=rule.factor,
        weight_decay=rule.weight_decay,
        momentum=rule.momentum,
        alpha=rule.alpha,
        nesterov=rule.nesterov,
        is_first=rule.is_first,
        lr=rule.lr,
    )


def _layout_key(
    stored: StoredWeight, moments: tuple[StoredMoment, ...]
) -> tuple[WeightKind, torch.dtype, tuple[_MomentKey, ...]]:
    return stored.kind, stored.weight.dtype, tuple([moment.layout for moment in moments])


def _slot_places(stored: StoredWeight, moments: tuple[StoredMoment, ...], gradient: int, draw: Draw) -> list[int]:
    """Twelve numbers of a slot: size, addresses, draw."""
    weight = stored.weight
    places = [weight.numel(), gradient, weight.data_ptr(), _address(stored.extra), draw.seed, draw.offset]
    for moment in moments:
        places += _places(moment)
    places += _NO_MOMENT * (2 - len(moments))
    return places


def _places(moment: StoredMoment) -> tuple[int, int, int]:
    """Addresses of values, scales and powers; 0 where there are none."""
    values, scales, powers = moment.values, moment.scales, moment.powers
    if scales is None:
        return values.data_ptr(), 0, 0
    return values.data_ptr(), scales.data_ptr(), _address(powers)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


@lru_cache(maxsize=256)
def _moment(kind: MomentKind, block: int, expand: bool, is_signed: bool) -> _native.MomentLayout:
    return _native.MomentLayout(_MOMENTS[kind], block, expand, is_signed)


@lru_cache(maxsize=1024)
def _layout(
    gradient: torch.dtype, kind: WeightKind, weight: torch.dtype, moments: tuple[_MomentKey, ...]
) -> _native.Layout:
    return _native.Layout(DTYPES[gradient], _WEIGHTS[kind], DTYPES[weight], [_moment(*moment) for moment in moments])
