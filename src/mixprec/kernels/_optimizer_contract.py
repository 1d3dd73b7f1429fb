"""What a backend must do between the backward pass and the next forward: norms, updates, the keeping of state.

As in `_contract`, the arithmetic is given here once and every backend equals `reference` bit for bit. Only + - * / of
fp32 and fp64, integer and bit operations, compare and select, and square roots through fp64
(``x.double().sqrt().float()``, which is IEEE's fp32 square root) are used; each operation rounds once, in the order
written. Constants are computed in fp64 and rounded once to fp32 before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from mixprec.specs import MomentKind

from ._contract import Draw
from ._stored_checks import check_moment, check_weight

if TYPE_CHECKING:
    from torch import Tensor

WeightKind = Literal["plain", "master", "split", "stochastic", "kahan"]


@dataclass(frozen=True, eq=False)
class StoredWeight:
    """A weight as it lies in memory; ``weight`` is the model's own tensor.

    Kinds, their fp32 value w, and how w is stored:

    - ``plain``: ``weight`` is fp32, bf16 or fp16; w is it, widened; stored to nearest, ties to even.
    - ``master``: ``weight`` has 16 bits; w is ``extra`` (fp32); ``extra = w``, ``weight`` to nearest, ties to even.
    - ``split``: ``weight`` is bf16, ``extra`` an int16 remainder d; the bits of w are ``bits(weight) * 2^16 + d``;
      stored: ``weight`` to nearest, ties away from zero, d the difference. A pair that no storing gives, one whose
      bits are a NaN, is read with d = 0: a zero written over a weight (pruned, clamped) stays a zero whatever d is.
    - ``stochastic``: ``weight`` is bf16; w is it, widened; stored as `Backend.round` of the cast ``bf16 sr``.
    - ``kahan``: ``weight`` and ``extra`` (the compensation) are bf16; ``w = fp32(fp32(weight) + fp32(extra))``; stored:
      ``weight`` to nearest even, ``extra`` the nearest even bf16 of ``fp32(w - fp32(weight))`` (0 where ``weight`` is
      not finite).

    A split weight of magnitude 2^128 - 2^119 and more reads as infinity in bf16 and is still exact as a pair. A NaN is
    stored as 0x7fc0 (fp16: 0x7e00), with remainder 0.

    Raises:
        TypeError: a weight of another dtype.
        ValueError: an unknown kind, or an ``extra`` that is missing, needless, or of another dtype, shape or device.
    """

    kind: WeightKind
    weight: Tensor
    extra: Tensor | None = None

    def __post_init__(self) -> None:
        check_weight(self)


@dataclass(frozen=True, eq=False)
class StoredMoment:
    """A moment as it lies in memory, in C order.

    ``fp32`` and ``bf16``: ``values`` has the weight's shape. ``e4m3`` and ``dynamic``: ``values`` are uint8 codes
    ``[n]``, ``scales`` fp32 ``[ceil(n / block)]``, and ``powers`` (``e4m3`` only) uint8 ``[ceil(n / block)]``; fresh
    ones are zeros. First moments are rounded to nearest, ties to even. Second ones (no sign) change by less than half a
    place of bf16 or of a code in a step and would stall: they are rounded by chance, with random bits of their own. See
    `_moment_codes` of the reference for the arithmetic, `bf16_by_chance` there for bf16.

    Attributes:
        kind: how it is kept.
        values: the moment, or its codes.
        scales: of 8-bit codes.
        powers: of 8-bit codes under range expansion: 0: |x|^(1/2); 1: |x|; 2: |x|^2; 3: |x|^4.
        block: consecutive elements that share a scale.
        expand: whether a block chooses its power; otherwise it is 1 (|x|), without a sign 1/2.
        is_signed: whether it has negative numbers; a second moment has none.

    Raises:
        ValueError: an unknown kind, another block than 128 or 256, or tensors of another dtype or size.
    """

    kind: MomentKind
    values: Tensor
    scales: Tensor | None = None
    powers: Tensor | None = None
    block: int = 256
    expand: bool = True
    is_signed: bool = True

    def __post_init__(self) -> None:
        check_moment(self)

    @cached_property
    def layout(self) -> tuple[MomentKind, int, bool, bool]:
        """Kind, block, expand and is_signed."""
        return self.kind, self.block, self.expand, self.is_signed


@dataclass(frozen=True, eq=False)
class Slot:
    """What one parameter brings to an update.

    Attributes:
        gradient: fp32, bf16 or fp16, of the weight's shape, any strides.
        weight: changed in place.
        moments: of the rule, in its order; changed in place.
        draw: of stochastic rounding.
    """

    gradient: Tensor
    weight: StoredWeight
    moments: tuple[StoredMoment, ...]
    draw: Draw = field(default_factory=Draw)


@dataclass(frozen=True, kw_only=True)
class AdamWRule:
    """One step of AdamW for parameters that have taken equally many; all values are exact in fp32.

    ``g = grad * factor``; ``w = w * decay``; ``m = beta1 * m + alpha1 * g``; ``v = beta2 * v + alpha2 * (g * g)``;
    ``w = w - rate * (m / (sqrt(v) * correction + eps))``.

    Attributes:
        factor: what the gradients are multiplied by: 1 / loss scale, times the clip coefficient; negated to maximize.
        decay: 1 - lr * weight_decay.
        beta1: of the first moment; ``alpha1`` is 1 - beta1.
        alpha1: see there.
        beta2: of the second moment; ``alpha2`` is 1 - beta2.
        alpha2: see there.
        rate: lr / (1 - beta1^step).
        correction: 1 / sqrt(1 - beta2^step).
        eps: added to the root.
    """

    factor: float
    decay: float
    beta1: float
    alpha1: float
    beta2: float
    alpha2: float
    rate: float
    correction: float
    eps: float


@dataclass(frozen=True, kw_only=True)
class SGDRule:
    """One step of SGD; without momentum a slot has no moment.

    ``g = grad * factor``; ``g = g + weight_decay * w`` (unless that is 0); with momentum:
    ``b = momentum * b + alpha * g``, at the first step ``b = g``; ``g = g + momentum * b`` (nesterov) or ``b``;
    ``w = w - lr * g``.

    Attributes:
        factor: as of AdamW.
        weight_decay: coefficient of the L2 term.
        momentum: 0: none.
        alpha: 1 - dampening.
        nesterov: whether the update looks ahead.
        is_first: whether the moment is the gradient itself.
        lr: learning rate.
    """

    factor: float
    weight_decay: float
    momentum: float
    alpha: float
    nesterov: bool
    is_first: bool
    lr: float


Rule = AdamWRule | SGDRule
#: What an optimizer keeps of one parameter: its weight, and moments in the rule's order.
Kept = tuple[StoredWeight, tuple[StoredMoment, ...]]


@runtime_checkable
class OptimizerBackend(Protocol):
    """The part of a backend that steps. Tensors are contiguous but for gradients; results are written in place.

    `Backend` and this are one class in the backends that have both; a device whose backend only casts is stepped by the
    reference. Arguments have been checked.
    """

    name: str

    def gradient_squares(self, gradients: Sequence[Tensor]) -> Tensor:
        """Sum of squares of each gradient, fp64 ``[len(gradients)]`` on their device.

        Squares of the widened elements in fp64; chunks of 1,024 elements in C order, the last padded with zeros, are
        summed by halving (``a[:h] + a[h:]``), the chunks' results by the same tree again. Infinite or NaN if and only
        if an element is: no sum of fp32 squares overflows.
        """
        ...

    def optimizer_step(self, slots: Sequence[Slot], rule: Rule) -> None:
        """Update every slot's weight and moments in one pass over each."""
        ...

    def load_weight(self, stored: StoredWeight) -> Tensor:
        """The fp32 value of a weight, fresh, of its shape."""
        ...

    def store_weight(self, stored: StoredWeight, value: Tensor, draw: Draw) -> None:
        """Keep an fp32 value."""
        ...

    def load_moment(self, stored: StoredMoment) -> Tensor:
        """The fp32 values of a moment, fresh: of the weight's shape, or ``[n]`` of 8-bit codes."""
        ...

    def store_moment(self, stored: StoredMoment, value: Tensor) -> None:
        """Keep fp32 values."""
        ...


class PlannedStep(Protocol):
    """Steps over weights and moments that lie where they lay; whoever calls it has asked them."""

    def __call__(self, gradients: Sequence[Tensor], rule: Rule, seed: int, offsets: Sequence[int]) -> None:
        """As `OptimizerBackend.optimizer_step` of slots whose draws have this seed and these offsets."""
        ...


@runtime_checkable
class PlanningBackend(Protocol):
    """A backend that finds once what many steps over the same contiguous tensors need."""

    def plan_step(self, kept: Sequence[Kept]) -> PlannedStep:
        """Steps over these weights and moments."""
        ...


@runtime_checkable
class CountingBackend(Protocol):
    """A backend that counts, at addresses of fp32 numbers on the CPU."""

    def counters_are(self, counters: list[int], value: int) -> bool:
        """Whether each equals a number."""
        ...

    def advance_counters(self, counters: list[int]) -> None:
        """Add one to each."""
        ...
