"""Many steps over the same weights and moments: what is checked and found once instead of in every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import _optimizer_checks as checks
from ._contract import Draw
from ._optimizer_contract import Kept, PlannedStep, PlanningBackend, Rule, Slot, StoredMoment, StoredWeight
from ._optimizer_functions import optimizer_step
from ._registry import optimizer_backend
from ._stored_checks import check_moment, check_weight


@dataclass(frozen=True)
class _Found:
    """What tensors were, as far as a step depends on it; cheap to ask, as 150 small tensors are asked in every step.

    Where a tensor lies says on which device, too.
    """

    addresses: list[int]
    counts: list[int]
    dtypes: list[torch.dtype]
    are_straight: list[bool]
    shapes: list[torch.Size]

    @classmethod
    def of(cls, tensors: Sequence[Tensor], weights: Sequence[Tensor]) -> _Found:
        return cls(
            list(map(Tensor.data_ptr, tensors)),
            list(map(Tensor.numel, tensors)),
            [tensor.dtype for tensor in tensors],
            list(map(Tensor.is_contiguous, tensors)),
            [weight.shape for weight in weights],
        )


class StepPlan:
    """Steps over the same weights and moments, as `optimizer_step` takes them, for less of Python's time in each.

    Every step asks all tensors where they lie and what they are. Where an answer is another than before (new ``.data``,
    another shape, another device) everything is checked and found anew, so that no address outlives a step.

    Args:
        kept: of each parameter, its weight and its moments; not empty, and all on one device.

    Raises:
        TypeError, ValueError: tensors that do not fit the way of keeping.

    Example:
        >>> from mixprec.kernels import SGDRule, StoredWeight
        >>> weight = torch.tensor([1.0, 2.0])
        >>> plan = StepPlan([(StoredWeight("plain", weight), ())])
        >>> rule = SGDRule(
        ...     factor=0.5, weight_decay=0.0, momentum=0.0, alpha=1.0, nesterov=False, is_first=False, lr=0.5
        ... )
        >>> plan.step([torch.ones(2)], rule, seed=0, offsets=[0])
        >>> weight.tolist()
        [0.75, 1.75]
    """

    def __init__(self, kept: Sequence[Kept]) -> None:
        self._kept = tuple(kept)
        self._weights = [stored.weight for stored, _ in kept]
        self._tensors = [tensor for stored, moments in kept for tensor in _tensors(stored, moments)]
        self._find()

    def step(self, gradients: Sequence[Tensor], rule: Rule, seed: int, offsets: Sequence[int]) -> None:
        """Update weights and moments in place, each in one pass.

        Args:
            gradients: of each parameter; they may be other tensors in every step.
            rule: one step of the optimizer.
            seed: of stochastic rounding.
            offsets: of stochastic rounding, one of each parameter.

        Raises:
            TypeError, ValueError: as of `optimizer_step`.
        """
        if len(gradients) != len(self._kept) or len(offsets) != len(self._kept):
            raise ValueError(
                f"the plan is of {len(self._kept)} parameters, got {len(gradients)} gradients and {len(offsets)} "
                "offsets: expected one of each for every parameter, in the plan's order"
            )
        if _Found.of(self._tensors, self._weights) != self._found:
            self._find()
        if self._planned is None or not self._fits(gradients, rule):
            found = zip(gradients, self._kept, offsets, strict=True)
            optimizer_step([Slot(g, *kept, Draw(seed, offset)) for g, kept, offset in found], rule)
            return
        with torch.no_grad():
            self._planned(gradients, rule, seed, offsets)
        torch.autograd.graph.increment_version(self._weights)

    def _fits(self, gradients: Sequence[Tensor], rule: Rule) -> bool:
        """Whether nothing is to be refused or copied; `optimizer_step` has the words for what is."""
        return (
            [gradient.shape for gradient in gradients] == self._found.shapes
            and checks.are_floats(gradients)
            and checks.all_lie_on(self._device, gradients)
            and self._moment_counts == {checks.moment_count(rule)}
        )

    def _find(self) -> None:
        for stored, moments in self._kept:
            check_weight(stored)
            for moment in moments:
                check_moment(moment)
        self._found = _Found.of(self._tensors, self._weights)
        self._device = self._weights[0].device
        self._moment_counts = {len(moments) for _, moments in self._kept}
        self._planned = self._plan()

    def _plan(self) -> PlannedStep | None:
        """The backend's own plan; ``None`` where it has none, or where weights must be copied or refused."""
        backend = optimizer_backend(self._device.type)
        sizes = [stored.weight.numel() for stored, moments in self._kept for _ in moments]
        if not isinstance(backend, PlanningBackend):
            return None
        fits = (
            all(self._found.are_straight)
            and checks.all_lie_on(self._device, self._tensors)
            and sizes == [moment.values.numel() for _, moments in self._kept for moment in moments]
        )
        return backend.plan_step(self._kept) if fits else None


def _tensors(stored: StoredWeight, moments: tuple[StoredMoment, ...]) -> list[Tensor]:
    found = [stored.weight, stored.extra]
    for moment in moments:
        found += [moment.values, moment.scales, moment.powers]
    return [tensor for tensor in found if tensor is not None]
