"""Bytes of a session by kind, counted from the tensors that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..monitor import StorageKey, storages_in, tensors_in
from ..optim import KeptWeights
from ._applying import Applier
from ._memory import Memory
from ._memory_meter import MemoryMeter


class MemoryCounter:
    """Counts what is there when it is asked, and measures the steps that are audited.

    Args:
        model: the root.
        kept: the optimizers, by name.
        applier: knows what else follows the steps.
        recipe: its name.
    """

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights], applier: Applier, recipe: str) -> None:
        self._model, self._kept, self._applier, self._recipe = model, kept, applier, recipe
        self._meter = MemoryMeter(applier.conversion)

    def begin_backward(self, loss: Tensor, applied: int) -> None:
        """To be called before each backward pass, through the graph of ``loss``, after so many applied steps."""
        self._meter.begin_backward(loss, applied, self._resident)

    def end_backward(self) -> None:
        """To be called after each backward pass."""
        self._meter.end_backward(self._gradients)

    def end_step(self) -> None:
        """To be called when a step is over, applied or not."""
        self._meter.end_step()

    def count(self) -> Memory:
        """What is there now, and what the measured step held."""
        counted, step = _each_once({**self._kinds(), "gradients": self._gradients()}), self._meter.last
        named = ("weights", "masters", "moments", "counters", "gradients", "buffers")
        return Memory(
            recipe=self._recipe,
            parameters=sum(p.numel() for p in self._model.parameters()),
            **{name: counted[name] for name in named},
            most_gradients=None if step is None else step.gradients,
            saved=None if step is None else step.by_site,
            other={name: n for name, n in counted.items() if name not in named and n},
            from_step=0 if step is None else step.from_step,
            notes=self._meter.notes,
        )

    def _resident(self) -> dict[StorageKey, int]:
        """The storages that are there between steps, whatever they are."""
        return {key: n for storages in self._kinds().values() for key, n in storages.items()}

    def _kinds(self) -> dict[str, dict[StorageKey, int]]:
        optimizers = [one.optimizer for one in self._kept.values()]
        return {
            "weights": storages_in(self._model.parameters()),
            "buffers": storages_in(self._model.buffers()),
            "masters": storages_in([one.extras() for one in self._kept.values()]),
            "counters": storages_in(_counters(optimizers)),
            "moments": storages_in([one.state for one in optimizers]),
            **{name: storages_in(tensors) for name, tensors in self._beside().items()},
        }

    def _beside(self) -> dict[str, object]:
        """Tensors that are neither the model's nor the optimizers', by what they are."""
        applier = self._applier
        return {
            "averages": [average.state_dict() for average in applier.averages.values()],
            **applier.conversion.kept_tensors(),
            "copies of buffers": applier.statistics.tensors,
            "samples of weights": tuple(t for watch in applier.watches.values() for t in watch.tensors),
        }

    def _gradients(self) -> dict[StorageKey, int]:
        """The storages of all gradients: of the model's parameters, and of what the optimizers hold in their place."""
        groups = [group for one in self._kept.values() for group in one.optimizer.param_groups]
        held = [p for group in groups for p in group["params"]]
        return storages_in([p.grad for p in (*self._model.parameters(), *held) if p.grad is not None])


def _counters(optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    """Single numbers: step counters and the like of each parameter, and what groups hold in place of a master."""
    for optimizer in optimizers:
        for param, values in optimizer.state.items():
            yield from _single_numbers(param, values)
        for group in optimizer.param_groups:
            yield from tensors_in(group)  # its parameters are counted as weights and masters


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
