"""An optimizer's step: read, update, keep."""

from __future__ import annotations

from .._optimizer_contract import Rule, Slot
from ._moments import load_moment, store_moment
from ._update_rules import update
from ._weights import load_weight, store_weight


def step_slot(slot: Slot, rule: Rule) -> None:
    """Update one slot's weight and moments."""
    shape = slot.weight.weight.shape
    moments = tuple(load_moment(moment).reshape(shape) for moment in slot.moments)
    weight, *moved = update(rule, slot.gradient.detach().float(), load_weight(slot.weight), moments)
    store_weight(slot.weight, weight, slot.draw)
    for kept, value in zip(slot.moments, moved, strict=True):
        store_moment(kept, value)
