"""The calls of an optimizer's step, made once and used while its groups and its state hold what they held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ..kernels import Counters, Rule, StepPlan
from ._draws import weight_draw
from ._held import Held

Group = dict[str, Any]
Member = tuple[int, Held]
#: Version and address of a weight: one of them changes with every write from outside, and with new ``.data``.
Version = tuple[int, int]


def version_of(param: Tensor) -> Version:
    """A weight's present version."""
    return param._version, param.data_ptr()


class Call:
    """Parameters of one group, on one device, that have taken equally many steps.

    Args:
        group: theirs.
        members: place of each in the optimizer's groups, and its tensors.
        step: steps that were taken.
        is_first: whether their moments were made just now.

    Attributes:
        group: theirs.
        step: steps that were taken.
        is_first: whether this step is the first of the moments.
    """

    def __init__(self, group: Group, members: Sequence[Member], step: int, is_first: bool) -> None:
        self.group, self.step, self.is_first = group, step, is_first
        self._indices = [index for index, _ in members]
        self._counters = Counters([held.step for _, held in members])
        self._plan = StepPlan([(held.weight, held.moments) for _, held in members])

    def is_counted(self) -> bool:
        """Whether the counters say what this call has counted."""
        return self._counters.are(self.step)

    def run(self, rule: Rule, gradients: Sequence[Tensor | None]) -> None:
        """Take one step; ``gradients`` are those of all the optimizer's parameters."""
        mine = [gradient for gradient in map(gradients.__getitem__, self._indices) if gradient is not None]
        draw = weight_draw(self.group["seed"], self.step, 0)
        first = draw.offset
        self._plan.step(mine, rule, draw.seed, [first + index for index in self._indices])
        self._counters.advance()
        self.step += 1
        self.is_first = False


@dataclass(frozen=True, eq=False)
class MadeFrom:
    """What calls are made from.

    Attributes:
        names: sizes and names of each state's entries.
        objects: groups, what they say, parameters and entries of the state, to be compared by identity.
    """

    names: list[object]
    objects: list[object]

    @classmethod
    def of(cls, optimizer: Optimizer, said: Callable[[Group], tuple[object, ...]]) -> MadeFrom:
        """Look at an optimizer; ``said`` tells what a group says of how its parameters are kept."""
        groups, state = optimizer.param_groups, optimizer.state
        states: list[dict[str, object]] = list(state.values())
        params = chain.from_iterable([group["params"] for group in groups])
        options = chain.from_iterable(map(said, groups))
        entries = chain.from_iterable(map(dict.values, states))
        return cls([*map(len, states), *chain.from_iterable(states)], [*groups, *options, *params, *state, *entries])

    def is_same(self, other: MadeFrom) -> bool:
        """Whether both are the same objects under the same names."""
        ours, theirs = self.objects, other.objects
        return self.names == other.names and len(ours) == len(theirs) and all(map(is_, ours, theirs))


class Calls:
    """All calls of one optimizer; it is not held, so that it goes with its last reference.

    Args:
        calls: of those parameters that have a gradient.
        made_from: the optimizer's groups and its complete state.
        watched: parameters that have a state.
        gradients: of all parameters.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        made_from: MadeFrom,
        watched: Iterable[Tensor],
        gradients: Sequence[Tensor | None],
    ) -> None:
        self._calls, self._made_from, self._watched = tuple(calls), made_from, list(watched)
        self._missing = [gradient is None for gradient in gradients]
        self._versions = self._present()

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    def are_current(self, found: MadeFrom) -> bool:
        """Whether groups and state hold the same tensors as when the calls were made."""
        return self._made_from.is_same(found)

    def fit(self, gradients: Sequence[Tensor | None]) -> bool:
        """Whether the calls, which are current, are those of a step with these gradients."""
        missing = [gradient is None for gradient in gradients]
        return missing == self._missing and all(call.is_counted() for call in self._calls)

    def are_unwritten(self) -> bool:
        """Whether nobody has written a weight since ``see``."""
        return self._present() == self._versions

    def see(self) -> None:
        """Take the weights' present versions for those of the last step."""
        self._versions = self._present()

    def versions(self) -> Iterator[tuple[Tensor, Version]]:
        """Parameters that have a state, with their versions when they were last seen."""
        return zip(self._watched, zip(*self._versions, strict=True), strict=True)

    def _present(self) -> tuple[list[int], list[int]]:
        return [param._version for param in self._watched], list(map(Tensor.data_ptr, self._watched))
