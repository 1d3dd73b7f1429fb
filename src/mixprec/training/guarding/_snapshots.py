"""Snapshots of a session: taken, held, and gone back to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...guard import Place, Shelf, Snapshots
from .._checkpoint_parts import Restorable, gather_parts, load_parts
from .._result import Event
from ._disk_snapshots import DiskSnapshots
from ._guarding import Guarding
from ._held_state import HeldState

_NO_DISK = "guard: the snapshot of step {} is not on disk, and training goes on with the {} that are held: {}"
_GONE = (
    "guard: the snapshots of steps {} are not on disk any more: a run that goes back as far differs from one that was "
    "not interrupted"
)
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
    """Holds the last states of a session in memory, whose room is used again, and some older ones on disk.

    Args:
        session: whose they are.
        settings: how many, and how often.
        extra: the user's own objects whose states belong to the run.
    """

    def __init__(self, session: Guarding, settings: Snapshots, extra: Mapping[str, Restorable]) -> None:
        self._session, self._settings, self._extra = session, settings, dict(extra)
        self._shelf = Shelf[_Snapshot](most=settings.in_memory, quiet=settings.quiet)
        self._disk = DiskSnapshots(session.folder, settings)
        self._spare: list[_Snapshot] = []
        #: Held for as long as some of the process before are on the shelf.
        self._begun: _Begun | None = None
        self._is_resumed = False
        self.bytes = 0
        #: When states began that no other time is known of, and when the run went back last.
        self._began_at = self._returned_at = time.perf_counter()
        self._has_told, self._has_told_of_disk = False, False

    @property
    def places_held(self) -> str:
        """Where how many are held at most, for people."""
        memory = f"up to {self._settings.in_memory} snapshots of {self.bytes / 2**20:.3g} MiB are held in host memory"
        return memory + (f", and {self._disk.most} older ones in {self._session.folder}" if self._disk.most else "")

    def is_due(self, applied: int) -> bool:
        """Whether one is to be taken after so many applied steps."""
        return self._is_due_in_memory(applied) or self._disk.is_due(applied)

    def take(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take one; the first counts as good, for nothing better is known."""
        if self._is_due_in_memory(place.step):
            self._take_into_memory(place, loaders)
        if self._disk.is_due(place.step):
            self._take_onto_disk(place, loaders)

    def _is_due_in_memory(self, applied: int) -> bool:
        return not len(self._shelf) or self._is_resumed or applied % self._settings.every == 0

    def _take_into_memory(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
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

    def _take_onto_disk(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        try:
            self._disk.take(place, gather_parts(self._session.owners({**self._extra, **loaders})))
        except (OSError, TypeError, ValueError) as error:  # no room; a state without a form on disk; no lock
            if not self._has_told_of_disk:
                self._has_told_of_disk = True
                self._tell(place.step, _NO_DISK.format(place.step, len(self._shelf), error))

    def begin(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take the first one of a loader: what lies before it cannot be gone back to, but in a run that was resumed."""
        if self._is_resumed:
            self._begin_again(place, loaders)
            return
        self.forget()
        self.take(place, loaders)

    def forget(self) -> None:
        """None of them can be gone back to."""
        self._let_go_of_memory()
        self._disk.forget()

    def _let_go_of_memory(self) -> None:
        self._spare += self._shelf.clear()
        self._spare += [] if self._begun is None else [self._begun.snapshot]
        self._begun, self._is_resumed = None, False

    def state(self) -> dict[str, list[list[int | bool]]]:
        """Which there are, as JSON can hold it."""
        return {"snapshots": self._shelf.state(), "on_disk": self._disk.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Another state was loaded, by whose process those were held."""
        self._let_go_of_memory()
        self._shelf.load(state["snapshots"])
        self._is_resumed = self._shelf.has_lost
        gone = self._disk.resume(state.get("on_disk", ()))
        if gone:
            self._tell(self._session.applied(), _GONE.format(", ".join(map(str, gone))))

    def disturb(self, step: int) -> None:
        """Something was seen at a step."""
        self._shelf.disturb(step)
        self._disk.disturb(step)

    def settle(self, applied: int) -> None:
        """So many steps are applied."""
        self._shelf.settle(applied)
        self._disk.settle(applied)

    def places(self) -> tuple[Place, ...]:
        """Of the good ones, the newest first.

        One that is lost and not on disk has the place where this process began in its stead.
        """
        begun = None if self._begun is None else self._begun.place
        found = {place.step: place for place in self._disk.places()}
        for place in self._shelf.places():
            if not self._shelf.is_lost(place):
                found[place.step] = place
            elif begun is not None:
                found.setdefault(place.step, replace(place, instead=begun))
        return tuple(sorted(found.values(), key=lambda place: place.step, reverse=True))

    def go_back(self, place: Place, loaders: Mapping[str, Restorable]) -> float:
        """Be as it was there, but for what an escalation or a loss scale has changed since.

        Returns:
            Seconds that are lost by it: since it was taken, or since the run last went back.
        """
        parts, taken_at = self._parts(place)
        owners = self._session.owners({**self._extra, **loaders})
        state: dict[str, Any] = parts["session"]["state"]
        own: Mapping[str, Any] = owners.session.state_dict()
        state["phases"] = {**state["phases"], "widened": own["phases"]["widened"]}
        state["losses"] = {
            name: {**loss, "scale": own["losses"][name]["scale"]} if loss["kind"] == "static" else loss
            for name, loss in state["losses"].items()
        }
        load_parts(parts, owners, convert=False)
        self._disk.drop_after(place.reached.step)
        if not self._holds(place):
            self._spare += self._shelf.drop_from(place.step)  # first, so that its memory is used again
            snapshot = self._taken_where_memory_is(place, loaders)
            if snapshot is not None:
                self._shelf.put(place, snapshot, is_good=True)
        now = time.perf_counter()
        lost, self._returned_at = now - max(taken_at, self._returned_at), now
        return lost

    def _holds(self, place: Place) -> bool:
        """Whether memory has what the run goes back to, at the place itself or in its stead."""
        return place.instead is not None or any(
            own.step == place.step and not self._shelf.is_lost(own) for own in self._shelf.places()
        )

    def _parts(self, place: Place) -> tuple[dict[str, Any], float]:
        """The state of a place, and when it was taken."""
        if not self._holds(place):
            return self._disk.parts(place), self._began_at
        held, later = self._shelf.take(place)
        self._spare += later
        snapshot = held
        if snapshot is None:
            if self._begun is None:
                raise RuntimeError(f"the snapshot of step {place.step} ended with its process, and no other is held")
            snapshot = self._begun.snapshot
            self._shelf.settle(place.reached.step)
        # A model copies what it is given, an optimizer may keep it.
        return snapshot.held.give(as_held=("model",)), snapshot.taken_at

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
            self._tell(place.step, _NO_MEMORY.format(place.step, len(self._shelf)))
        return None

    def _tell(self, step: int, message: str) -> None:
        self._session.tell([Event(step=step, name="guard", message=message)])

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
