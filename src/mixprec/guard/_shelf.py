"""Which states a run can go back to: the last ones, good once the run has been quiet for a while after them.

A process that goes on with a run knows which ones the process before it held, and holds none of them: they stay where
they are on the shelf, so that what is decided is what would have been decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ._decision import Place

Held = TypeVar("Held")


@dataclass(eq=False)
class _Kept(Generic[Held]):
    place: Place
    #: ``None``: it ended with an earlier process.
    item: Held | None
    quiet_since: int
    is_good: bool = False


class Shelf(Generic[Held]):
    """A bounded number of snapshots, at least one of them good.

    Args:
        most: how many are held.
        quiet: applied steps without a disturbance after which one is good.

    Example:
        >>> shelf = Shelf[str](most=2, quiet=10)
        >>> shelf.put(Place(step=0, batch=0), "a", is_good=True)
        >>> shelf.put(Place(step=20, batch=20), "b")
        >>> shelf.disturb(25)
        >>> shelf.settle(34)
        >>> [place.step for place in shelf.places()]
        [0]
        >>> shelf.settle(35)
        >>> [place.step for place in shelf.places()]
        [20, 0]
        >>> shelf.room()
        'a'
    """

    def __init__(self, *, most: int, quiet: int) -> None:
        self._most, self._quiet = most, quiet
        self._kept: list[_Kept[Held]] = []

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def has_lost(self) -> bool:
        """Whether some have ended with an earlier process."""
        return any(kept.item is None for kept in self._kept)

    def room(self) -> Held | None:
        """Make room for one more: what goes, so that its memory can be used again; ``None`` where nothing is held."""
        if len(self._kept) < self._most:
            return None
        good = [i for i, kept in enumerate(self._kept) if kept.is_good]
        index = good[0] if len(good) > 1 else next(i for i in range(len(self._kept)) if i not in good)
        return self._kept.pop(index).item

    def put(self, place: Place, item: Held, *, is_good: bool = False) -> None:
        """Hold a snapshot."""
        self._kept.append(_Kept(place, item, place.step, is_good))

    def disturb(self, step: int) -> None:
        """Something was seen: those that are not good yet have to wait anew."""
        for kept in self._kept:
            kept.quiet_since = max(kept.quiet_since, step)

    def settle(self, step: int) -> None:
        """So many steps are applied."""
        for kept in self._kept:
            kept.is_good = kept.is_good or step - kept.quiet_since >= self._quiet

    def places(self) -> tuple[Place, ...]:
        """Of the good ones, the newest first."""
        return tuple(kept.place for kept in reversed(self._kept) if kept.is_good)

    def all_places(self) -> tuple[Place, ...]:
        """Of those too that are not good yet, the newest first."""
        return tuple(kept.place for kept in reversed(self._kept))

    def item(self, place: Place) -> Held | None:
        """The snapshot of a place; ``None`` where it ended with an earlier process."""
        return self._at(place).item

    def is_lost(self, place: Place) -> bool:
        """Whether the snapshot of a place ended with an earlier process."""
        return self.item(place) is None

    def take(self, place: Place) -> tuple[Held | None, list[Held]]:
        """The snapshot of a place, which stays; with those after it, which go.

        Of a place that is lost there is none, and of those after it the lost ones stay: the run goes on after them, as
        if it had come by again.
        """
        chosen = self._at(place)
        index = self._kept.index(chosen) + 1
        later = self._kept[index:]
        lost = [kept for kept in later if kept.item is None]
        for kept in lost:
            kept.quiet_since, kept.is_good = kept.place.step, False
        self._kept[index:] = lost
        return chosen.item, _items(later)

    def drop_from(self, step: int) -> list[Held]:
        """Let go of those of a step and after it; what of them was held."""
        dropped = [kept for kept in self._kept if kept.place.step >= step]
        self._kept = [kept for kept in self._kept if kept.place.step < step]
        return _items(dropped)

    def drop_lost(self) -> list[int]:
        """Let go of those that are lost; their steps."""
        lost = [kept.place.step for kept in self._kept if kept.item is None]
        self._kept = [kept for kept in self._kept if kept.item is not None]
        return lost

    def clear(self) -> list[Held]:
        """Hold nothing any more; what was held."""
        kept, self._kept = self._kept, []
        return _items(kept)

    def state(self) -> list[list[int | bool]]:
        """Which there are, as JSON can hold it."""
        return [[kept.place.step, kept.place.batch, kept.quiet_since, kept.is_good] for kept in self._kept]

    def load(self, state: Iterable[Sequence[Any]], found: Callable[[int], Held | None] = lambda step: None) -> None:
        """Know those of a ``state()``.

        Args:
            state: that an earlier process left.
            found: the snapshot of a step, where it has outlived that process; else it is lost.
        """
        self._kept = [
            _Kept(Place(step=int(step), batch=int(batch)), found(int(step)), int(since), bool(is_good))
            for step, batch, since, is_good in state
        ]

    def _at(self, place: Place) -> _Kept[Held]:
        return next(kept for kept in self._kept if (kept.place.step, kept.place.batch) == (place.step, place.batch))


def _items(kept: Iterable[_Kept[Held]]) -> list[Held]:
    return [one.item for one in kept if one.item is not None]
