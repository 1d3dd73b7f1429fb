"""What an operation that made bad values did: its operands, its place in the pass, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._range import Range, plain

#: Operations that take rows of scores, in which -inf says that a place is masked.
_SOFTMAX = ("softmax", "_softmax", "_log_softmax", "log_softmax", "_safe_softmax", "logsumexp")
#: Those of them that give one number of a row, -inf where all of it is.
REDUCTIONS_OF_MASKS = ("logsumexp",)
_ATTENTION = "scaled_dot_product"
#: Notes on storages.
FLUSHED, SPREAD, AT_END = "flushed", "spread", "at an end"


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand of an operation.

    Attributes:
        name: of the argument, or the role that a converted layer gives it.
        values: of the operand, before the operation.
        tags: notes on it: ``"flushed"`` (a cast has flushed values of it to zero), ``"spread"`` (a variance),
            ``"at an end"`` (the gradient of a cross-entropy of probabilities that are 0 or 1).
        parameter: the parameter's name, where it is one.
        is_input: whether it is something that the model was called with.
        has_masked_row: whether some row (along the last axis) is -inf everywhere.
    """

    name: str
    values: Range
    tags: frozenset[str] = frozenset()
    parameter: str = ""
    is_input: bool = False
    has_masked_row: bool = False


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an operation did.

    Attributes:
        name: of the operation, e.g. ``"addmm"``, ``"mixprec::round e4m3"``.
        direction: ``"forward"`` or ``"backward"``.
        node: name of the autograd node that ran, in the backward pass.
        site: module path.
        is_in_norm: whether the module normalises: by its name, or by an eps of its own.
        operands: before it.
        result: the first bad one.
        numbers: plain numbers among the arguments.
        roles: operands of the converted product that was running, by role.
        sources: parents of the values that were bad, in words.
    """

    name: str
    direction: str
    node: str
    site: str
    is_in_norm: bool
    operands: Sequence[Operand]
    result: Range
    numbers: Mapping[str, float]
    roles: Mapping[str, Range]

    @property
    def takes_masks(self) -> bool:
        """Whether -inf in an operand says that a place is masked."""
        return self.name in _SOFTMAX or _ATTENTION in self.name

    @property
    def is_forward(self) -> bool:
        """Whether the forward pass, or its recomputation, ran it."""
        return self.direction == "forward"

    def with_zero(self) -> Operand | None:
        """The first operand that has a zero and is no result of a comparison."""
        return next((operand for operand in self.operands if operand.values.zeros), None)

    def widest(self) -> Operand | None:
        """The operand of the largest magnitude."""
        known = [operand for operand in self.operands if operand.values.elements]
        return max(known, key=lambda operand: operand.values.amax, default=None)


@torch.no_grad()
def has_masked_row(x: Tensor, values: Range) -> bool:
    """Whether some row along the last axis is -inf everywhere."""
    if not values.minus_inf or x.dim() == 0:
        return False
    return bool((plain(x) == -torch.inf).all(-1).any())
