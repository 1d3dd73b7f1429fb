"""Which training pass a recomputation repeats: activation checkpointing calls modules again, whenever and wherever.

A recomputation runs while some node of the autograd graph does. Nodes are numbered as they are made, by a counter of
each thread, and a pass knows the numbers that were given out while it ran. Where several threads have trained, their
numbers overlap: there the memory of what a module is called with tells, which checkpointing keeps or shares.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

#: Passes that are remembered: a backward pass comes soon after its forward pass. None keeps an activation alive.
_REMEMBERED = 128


@dataclass
class Span:
    """The numbers of the nodes that a thread made while a pass, or a recomputation of it, ran; open until it ends."""

    first: int = field(default_factory=lambda: _next_number())
    last: int | None = None

    def __contains__(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number < self.last)

    def end(self) -> None:
        """What ran is over."""
        self.last = _next_number() if self.last is None else self.last


@dataclass(eq=False)
class TrainingPass:
    """What a training pass drew, and how it is known again.

    Attributes:
        drawn: its ``[seed, offset]``.
        amaxes: the amax that each delayed scale came from, by the name of its history.
        spans: of its nodes: that of the pass itself, then those of its recomputations.
        inputs: memory that its modules were called with.
    """

    drawn: Tensor
    amaxes: dict[str, Tensor] = field(default_factory=lambda: {})
    spans: list[Span] = field(default_factory=lambda: [Span()])
    inputs: set[StorageWeakRef] = field(default_factory=lambda: set())

    @property
    def runs(self) -> bool:
        """Whether the pass itself is not over."""
        return self.spans[0].last is None


#: A backward pass and the number of one of its nodes; the pass that is repeated for it.
Repeated = tuple[tuple[int, int], TrainingPass]


class PastPasses:
    """The training passes of one conversion, in all threads; the last ones of them."""

    def __init__(self) -> None:
        self._passes: deque[TrainingPass] = deque(maxlen=_REMEMBERED)
        self._threads: set[int] = set()
        self._forgotten = 0  # numbers below may be those of passes that are not remembered
        self._lock = threading.Lock()

    def begin(self, drawn: Tensor) -> TrainingPass:
        """A pass begins on this thread."""
        with self._lock:
            self._threads.add(threading.get_ident())
            if len(self._passes) == _REMEMBERED:
                self._forgotten = max(self._forgotten, self._passes[0].spans[0].last or 0)
            self._passes.append(TrainingPass(drawn))
            return self._passes[-1]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is remembered of them: random states and amaxes."""
        with self._lock:
            return tuple(t for one in self._passes for t in (one.drawn, *one.amaxes.values()))

    def is_last(self, one: TrainingPass) -> bool:
        """Whether no pass has begun since."""
        with self._lock:
            return self._passes[-1] is one

    def repeated(self, inputs: Iterable[StorageWeakRef]) -> TrainingPass | None:
        """The pass that the running node belongs to, called with this memory; ``None`` where that is not certain."""
        number = running_node()[1]
        with self._lock:
            found = [p for p in self._passes if any(number in span for span in p.spans)]
            if len(self._threads) > 1 or number < self._forgotten or len(found) != 1:
                same = [p for p in self._passes if not p.inputs.isdisjoint(inputs)]
                found = same if len(same) == 1 else [p for p in same if p in found]
        return found[0] if len(found) == 1 else None


def unknown_pass(where: str) -> RuntimeError:
    """What to raise where a recomputation's pass cannot be told."""
    return RuntimeError(
        f"{where}: a recomputation (activation checkpointing) under a recipe with random roundings or delayed scales "
        f"cannot tell which forward pass it repeats: expected a training pass, one of the last {_REMEMBERED}. "
        "use_reentrant=True around a whole converted model hides that it trains: say use_reentrant=False. Where "
        "several threads train one model, let the first thing that a checkpoint calls be a module of the model, with "
        "the checkpoint's own input"
    )


def running_node() -> tuple[int, int]:
    """The running backward pass and the number of its running node; -1 for what there is not."""
    node = torch._C._current_autograd_node()  # pyright: ignore[reportPrivateUsage]  # no public spelling
    number = getattr(node, "_sequence_nr", None)  # none inside a hook, which is no node
    return torch._C._current_graph_task_id(), -1 if number is None else number()  # pyright: ignore[reportPrivateUsage]


def memory_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[StorageWeakRef]:
    """The memory of the tensors that a module is called with."""
    tensors = [
        value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.layout == torch.strided
    ]
    return {StorageWeakRef(t.untyped_storage()) for t in tensors if t.device.type != "meta"}


def _next_number() -> int:
    return torch.autograd._get_sequence_nr()  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
