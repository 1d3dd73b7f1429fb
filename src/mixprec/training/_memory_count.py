"""Bytes of a session by kind, counted from the tensors that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..monitor import StorageKey, storages_in, tensors_in
from ..optim import KeptWeights
from ._memory import Memory
from ._memory_meter import MemoryMeter


def count_memory(
    model: nn.Module,
    kept: Mapping[str, KeptWeights],
    other: Mapping[str, object],
    meter: MemoryMeter,
    recipe: str,
) -> Memory:
    """Count what is there, and tell what the measured step held.

    Args:
        model: the root.
        kept: the optimizers, by name.
        other: tensors that are kept beside, by what they are.
        meter: of the session.
        recipe: its name.
    """
    optimizers = {name: one.optimizer for name, one in kept.items()}
    kinds = _kinds(model, kept, other) | {"gradients": meter.gradients(optimizers)}
    counted = _each_once(kinds)
    step = meter.last
    named = ("weights", "masters", "moments", "counters", "gradients", "buffers")
    return Memory(
        recipe=recipe,
        parameters=sum(p.numel() for p in model.parameters()),
        **{name: counted[name] for name in named},
        most_gradients=None if step is None else step.gradients,
        saved=None if step is None else step.by_site,
        other={name: n for name, n in counted.items() if name not in named and n},
        from_step=0 if step is None else step.from_step,
        notes=meter.notes,
    )


def resident_storages(
    model: nn.Module, kept: Mapping[str, KeptWeights], other: Mapping[str, object]
) -> dict[StorageKey, int]:
    """The storages that are there between steps, whatever they are."""
    return {key: n for storages in _kinds(model, kept, other).values() for key, n in storages.items()}


def _kinds(
    model: nn.Module, kept: Mapping[str, KeptWeights], other: Mapping[str, object]
) -> dict[str, dict[StorageKey, int]]:
    optimizers = [one.optimizer for one in kept.values()]
    return {
        "weights": storages_in(model.parameters()),
        "buffers": storages_in(model.buffers()),
        "masters": storages_in([one.extras() for one in kept.values()]),
        "counters": storages_in(_counters(optimizers)),
        "moments": storages_in([one.state for one in optimizers]),
        **{name: storages_in(tensors) for name, tensors in other.items()},
    }


def _counters(optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    """Single numbers: step counters and the like of each parameter, and options of groups that are tensors."""
    for optimizer in optimizers:
        for param, values in optimizer.state.items():
            yield from _single_numbers(param, values)
        for group in optimizer.param_groups:
            yield from tensors_in({name: value for name, value in group.items() if name != "params"})


def _single_numbers(param: object, values: Any) -> Iterator[Tensor]:
    is_single = isinstance(param, Tensor) and param.dim() == 0
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if isinstance(value, Tensor) and (name == "step" or (value.dim() == 0 and not is_single)):
            yield value


def _each_once(kinds: Mapping[str, Mapping[StorageKey, int]]) -> dict[str, int]:
    """Bytes by kind, a storage under the first kind that has it."""
    seen: set[StorageKey] = set()
    counted: dict[str, int] = {}
    for name, storages in kinds.items():
        counted[name] = sum(n for key, n in storages.items() if key not in seen)
        seen |= storages.keys()
    return counted
