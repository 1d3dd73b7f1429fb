"""Which steps are sampled, where optimizers may step by turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Steps of others through which passes are watched for an optimizer whose turn it is.
_PATIENCE = 16


class Turns:
    """Of each optimizer every so many of its own applied steps is sampled, from its first on.

    So a sampled step never falls on the same one of two optimizers that alternate. Passes are watched while the next
    step of any of them is to be sampled: which of them a pass is for shows only afterwards.

    Args:
        every: applied steps from one sampled step to the next; 0: none.
        optimizers: names; others are added as they step.

    Example:
        >>> turns = Turns(2, ("d", "g"))
        >>> for who in "dgdgd":
        ...     print(who, turns.is_due([who]), end=" ")
        ...     turns.take([who])
        d True g True d False g False d True
    """

    def __init__(self, every: int, optimizers: Sequence[str]) -> None:
        self._every = every
        self._taken = dict.fromkeys(optimizers or ("",), 0)
        self._waited = dict.fromkeys(self._taken, 0)

    @property
    def watches(self) -> bool:
        """Whether passes are to be watched now."""
        return any(self._waited[name] < _PATIENCE and self.is_due((name,)) for name in self._taken)

    def is_due(self, optimizers: Sequence[str]) -> bool:
        """Whether a step that these take is sampled."""
        return bool(self._every) and any(not self._taken.get(name, 0) % self._every for name in optimizers or ("",))

    def take(self, optimizers: Sequence[str]) -> None:
        """They have taken a step."""
        for name in optimizers or ("",):
            self._taken[name] = self._taken.get(name, 0) + 1
            self._waited[name] = 0
        for name in self._taken.keys() - set(optimizers or ("",)):
            self._waited[name] = self._waited[name] + 1 if self.is_due((name,)) else 0

    def state_dict(self) -> dict[str, Any]:
        """Steps taken, and waited for, by optimizer."""
        return {"taken": dict(self._taken), "waited": dict(self._waited)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``; optimizers that it does not know begin anew."""
        for name in self._taken:
            self._taken[name] = int(state["taken"].get(name, 0))
            self._waited[name] = int(state["waited"].get(name, 0))

    def go_on(self, step: int) -> None:
        """Continue where every optimizer has taken as many steps."""
        for name in self._taken:
            self._taken[name], self._waited[name] = step, 0
