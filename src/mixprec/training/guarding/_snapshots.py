"""Snapshots of a session: taken, held, and gone back to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...guard import Place, Shelf, Snapshots
from .._checkpoint_parts import Restorable, gather_parts, load_parts
from .._result import Event
from ._guarding import Guarding
from ._held_state import HeldState

_NO_MEMORY = (
    "guard: there is no memory for a snapshot at step {}: training goes on with the {} that are held, and the next one "
    "is tried; Snapshots(in_memory=2) takes the least"
)


@dataclass
class _Snapshot:
    held: HeldState
    taken_at: float


@dataclass
class _Begun:
    """The state that a process went on with."""

    place: Place
    snapshot: _Snapshot


class Snapshotter:
    """Holds the last states of a session in memory; the memory of those that go is used again.

    Args:
        session: whose they are.
        settings: how many, and how often.
        extra: the user's own objects whose states belong to the run.
    """

    def __init__(self, session: Guarding, settings: Snapshots, extra: Mapping[str, Restorable]) -> None:
        self._session, self._settings, self._extra = session, settings, dict(extra)
        self._shelf = Shelf[_Snapshot](most=settings.in_memory, quiet=settings.quiet)
        self._spare: list[_Snapshot] = []
        #: Held for as long as some of the process before are on the shelf.
        self._begun: _Begun | None = None
        self._is_resumed = False
        self.bytes = 0
        self._returned_at = 0.0
        self._has_told = False

    def __len__(self) -> int:
        return len(self._shelf)

    def is_due(self, applied: int) -> bool:
        """Whether one is to be taken after so many applied steps."""
        return not len(self._shelf) or self._is_resumed or applied % self._settings.every == 0

    def take(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take one; the first counts as good, for nothing better is known."""
        if self._is_resumed:
            self._begin_again(place, loaders)
            if place.step % self._settings.every:
                return
        is_first = not len(self._shelf)
        gone = self._shelf.room()
        self._spare += [] if gone is None else [gone]
        if self._begun is not None and not self._shelf.has_lost:
            self._spare.append(self._begun.snapshot)
            self._begun = None
        snapshot = self._taken_where_memory_is(place, loaders)
        if snapshot is not None:
            self._shelf.put(place, snapshot, is_good=is_first)

    def begin(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take the first one of a loader: what lies before it cannot be gone back to, but in a run that was resumed."""
        if self._is_resumed:
            self._begin_again(place, loaders)
            return
        self.forget()
        self.take(place, loaders)

    def forget(self) -> None:
        """None of them can be gone back to."""
        self._spare += self._shelf.clear()
        self._spare += [] if self._begun is None else [self._begun.snapshot]
        self._begun, self._is_resumed = None, False

    def state(self) -> list[list[int | bool]]:
        """Which there are, as JSON can hold it."""
        return self._shelf.state()

    def resume(self, state: Iterable[Sequence[Any]]) -> None:
        """Another state was loaded, by whose process those were held."""
        self.forget()
        self._shelf.load(state)
        self._is_resumed = self._shelf.has_lost

    def disturb(self, step: int) -> None:
        """Something was seen at a step."""
        self._shelf.disturb(step)

    def settle(self, applied: int) -> None:
        """So many steps are applied."""
        self._shelf.settle(applied)

    def places(self) -> tuple[Place, ...]:
        """Of the good ones, the newest first; a lost one has the place where this process began in its stead."""
        begun = None if self._begun is None else self._begun.place
        told = [replace(p, instead=begun) if self._shelf.is_lost(p) else p for p in self._shelf.places()]
        return tuple(place for place in told if place.instead is not None or not self._shelf.is_lost(place))

    def go_back(self, place: Place, loaders: Mapping[str, Restorable]) -> float:
        """Be as it was there, but for what an escalation or a loss scale has changed since.

        Returns:
            Seconds that are lost by it: since it was taken, or since the run last went back.
        """
        held, later = self._shelf.take(place)
        self._spare += later
        snapshot = held
        if snapshot is None:
            if self._begun is None:
                raise RuntimeError(f"the snapshot of step {place.step} ended with its process, and no other is held")
            snapshot = self._begun.snapshot
            self._shelf.settle(place.reached.step)
        owners = self._session.owners({**self._extra, **loaders})
        parts = snapshot.held.give(as_held=("model",))  # a model copies what it is given, an optimizer may keep it
        state: dict[str, Any] = parts["session"]["state"]
        own: Mapping[str, Any] = owners.session.state_dict()
        state["phases"] = {**state["phases"], "widened": own["phases"]["widened"]}
        state["losses"] = {
            name: {**loss, "scale": own["losses"][name]["scale"]} if loss["kind"] == "static" else loss
            for name, loss in state["losses"].items()
        }
        load_parts(parts, owners, convert=False)
        now = time.perf_counter()
        lost, self._returned_at = now - max(snapshot.taken_at, self._returned_at), now
        return lost

    def _begin_again(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        self._is_resumed = False
        snapshot = self._taken_where_memory_is(place, loaders)
        self._begun = None if snapshot is None else _Begun(place, snapshot)

    def _taken_where_memory_is(self, place: Place, loaders: Mapping[str, Restorable]) -> _Snapshot | None:
        """Take one; ``None`` where there is no memory for it: those that are held stand."""
        try:
            return self._taken(loaders)
        except (MemoryError, RuntimeError) as error:
            if not _is_of_memory(error):
                raise
        if not self._has_told:
            self._has_told = True
            message = _NO_MEMORY.format(place.step, len(self._shelf))
            self._session.tell([Event(step=place.step, name="guard", message=message)])
        return None

    def _taken(self, loaders: Mapping[str, Restorable]) -> _Snapshot:
        snapshot = self._spare.pop() if self._spare else _Snapshot(HeldState(), 0.0)
        snapshot.held.take(gather_parts(self._session.owners({**self._extra, **loaders})))
        snapshot.taken_at = time.perf_counter()
        self.bytes = snapshot.held.bytes
        return snapshot


def _is_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether an allocation failed; torch has a class of its own for accelerators alone."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "allocate memory" in text
