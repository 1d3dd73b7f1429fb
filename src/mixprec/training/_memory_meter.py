"""What a step holds at its fullest: activations as its first backward pass begins, gradients as its last one ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..monitor import StorageKey, can_look_into_graphs, saved_tensors
from ..nn import Conversion
from ._memory import LOSS

_OPAQUE_NOTE = (
    "saved activations leave out what {} nodes of the graph keep, which torch does not show (operations in place on a "
    "view; functions of C++ extensions)"
)
_WHOLE_NOTE = (
    "the measured step was compiled by torch.compile, which shows no modules: all that was saved is told under "
    "'<model>'"
)
_OLD_TORCH = "saved activations are not measured: this torch does not show what a graph keeps; upgrade torch"
_NOT_YET = "saved activations and gradients of a step are not measured yet: run one training step"

#: Where operations are told that ran in the model, when the step does not show in which module.
_MODEL = "<model>"


@dataclass
class StepMemory:
    """What one step held.

    Attributes:
        from_step: applied steps before it.
        module_of: tells which module made a node of the graph; ``None`` where that is not known.
        began: the number of the next node when the first backward pass began.
        saved: bytes and site of each saved storage.
        opaque: kinds of nodes that were not seen into.
        gradients: bytes at the end of the last backward pass.
        backwards: passes whose graphs were read.
    """

    from_step: int
    module_of: Callable[[int], str | None] | None
    began: int
    saved: dict[StorageKey, tuple[int, str]] = field(default_factory=dict[StorageKey, tuple[int, str]])
    opaque: set[str] = field(default_factory=set[str])
    gradients: int = 0
    backwards: int = 0

    def add(self, loss: Tensor, resident: Mapping[StorageKey, int]) -> None:
        """Count what the graph of a loss holds, as far as it was there when the first backward pass began."""
        graph, is_first = saved_tensors(loss), not self.backwards
        self.backwards += 1
        self.opaque |= graph.opaque
        for key, storage in graph.storages.items():
            was_there = is_first or storage.number < self.began
            if was_there and key not in resident and key not in self.saved:
                self.saved[key] = storage.bytes, self._site(storage.number)

    def _site(self, number: int) -> str:
        if self.module_of is None:
            return _MODEL
        module = self.module_of(number)
        return LOSS if module is None else module

    @property
    def by_site(self) -> dict[str, int] | None:
        """Bytes by site, the most first; ``None``: they cannot be seen."""
        if not self.backwards:
            return None
        sums: dict[str, int] = {}
        for n, site in self.saved.values():
            sums[site] = sums.get(site, 0) + n
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


class MemoryMeter:
    """Measures the steps that are audited too: the first of a run, of each later phase, and those that are asked for.

    It reads graphs and gradients as they are there; a measured step computes what it would have computed, and other
    steps pay one comparison for each backward pass.

    Args:
        conversion: says which step is measured, and which module made a node.
    """

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._last: StepMemory | None = None
        self._is_open = False

    def begin_backward(self, loss: Tensor, applied: int, resident: Callable[[], Mapping[StorageKey, int]]) -> None:
        """To be called before each backward pass.

        Args:
            loss: whose graph it runs through.
            applied: steps before this one.
            resident: gives the storages that are there between steps.
        """
        if self._conversion.is_measuring:
            self._last = StepMemory(applied, self._conversion.module_of_nodes(), _next_number())
            self._is_open = True
        if self._is_open and self._last is not None and can_look_into_graphs():
            self._last.add(loss, resident())

    def end_backward(self, gradients: Callable[[], Mapping[StorageKey, int]]) -> None:
        """To be called after each backward pass.

        Args:
            gradients: gives the storages of those that are there.
        """
        if self._is_open and self._last is not None:
            self._last.gradients = max(self._last.gradients, sum(gradients().values()))

    def end_step(self) -> None:
        """To be called when the step is over, applied or not."""
        self._is_open = False

    @property
    def last(self) -> StepMemory | None:
        """The last measured step; ``None`` before there is one."""
        return self._last

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not measured, and why."""
        if self._last is None:
            return (_NOT_YET,)
        if not can_look_into_graphs():
            return (_OLD_TORCH,)
        notes = [_OPAQUE_NOTE.format(" and ".join(sorted(self._last.opaque)))] if self._last.opaque else []
        return (*notes, _WHOLE_NOTE) if self._last.module_of is None else tuple(notes)


def _next_number() -> int:
    return torch.autograd._get_sequence_nr()  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
