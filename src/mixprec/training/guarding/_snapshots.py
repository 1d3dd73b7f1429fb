"""Snapshots of a session: taken, held, and gone back to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...guard import Place, Shelf, Snapshots
from .._checkpoint_parts import Restorable, gather_parts, load_parts
from ._guarding import Guarding
from ._held_state import HeldState


@dataclass
class _Snapshot:
    held: HeldState
    taken_at: float


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
        self.bytes = 0
        self._returned_at = 0.0

    def __len__(self) -> int:
        return len(self._shelf)

    def is_due(self, applied: int) -> bool:
        """Whether one is to be taken after so many applied steps."""
        return not len(self._shelf) or applied % self._settings.every == 0

    def take(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take one; the first counts as good, for nothing better is known."""
        is_first = not len(self._shelf)
        gone = self._shelf.room()
        snapshot = gone or (self._spare.pop() if self._spare else _Snapshot(HeldState(), 0.0))
        snapshot.held.take(gather_parts(self._session.owners({**self._extra, **loaders})))
        snapshot.taken_at = time.perf_counter()
        self.bytes = snapshot.held.bytes
        self._shelf.put(place, snapshot, is_good=is_first)

    def begin(self, place: Place, loaders: Mapping[str, Restorable]) -> None:
        """Take the first one of a loader: what lies before it cannot be gone back to."""
        self._spare += self._shelf.clear()
        self.take(place, loaders)

    def forget(self) -> None:
        """Another state was loaded."""
        self._spare += self._shelf.clear()

    def disturb(self, step: int) -> None:
        """Something was seen at a step."""
        self._shelf.disturb(step)

    def settle(self, applied: int) -> None:
        """So many steps are applied."""
        self._shelf.settle(applied)

    def places(self) -> tuple[Place, ...]:
        """Of the good ones, the newest first."""
        return self._shelf.places()

    def go_back(self, place: Place, loaders: Mapping[str, Restorable]) -> float:
        """Be as it was there, but for what an escalation or a loss scale has changed since.

        Returns:
            Seconds that are lost by it: since it was taken, or since the run last went back.
        """
        snapshot, later = self._shelf.take(place)
        self._spare += later
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
