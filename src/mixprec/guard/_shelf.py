"""Which states a run can go back to: the last ones, good once the run has been quiet for a while after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ._decision import Place

Held = TypeVar("Held")


@dataclass
class _Kept(Generic[Held]):
    place: Place
    item: Held
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

    def room(self) -> Held | None:
        """Make room for one more: what goes, so that its memory can be used again; ``None`` where nothing has to."""
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

    def take(self, place: Place) -> tuple[Held, list[Held]]:
        """The snapshot of a place, which stays; with those after it, which go."""
        index = next(i for i, kept in enumerate(self._kept) if kept.place == place)
        later = self._kept[index + 1 :]
        del self._kept[index + 1 :]
        return self._kept[index].item, [kept.item for kept in later]

    def clear(self) -> list[Held]:
        """Hold nothing any more; what was held."""
        kept, self._kept = self._kept, []
        return [one.item for one in kept]
