"""Older states of a run, on disk: those that memory has no room for, which outlive their process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...guard import Place, Shelf, Snapshots
from ..checkpoint import checkpoint_at, find_checkpoints, read_checkpoint, remove_checkpoint, write_checkpoint


class DiskSnapshots:
    """Holds some states of a session in a folder, each under its step.

    Args:
        root: the folder; ``None``: there is none, and nothing is held.
        settings: how many, and how often.
    """

    def __init__(self, root: Path | None, settings: Snapshots) -> None:
        self._root, self._settings = root, settings
        self._shelf = Shelf[Path](most=settings.on_disk, quiet=settings.quiet)
        #: Off the shelf, and still there for a process that goes on from a checkpoint before that.
        self._last_gone: Path | None = None

    @property
    def most(self) -> int:
        """How many are held."""
        return 0 if self._root is None else self._settings.on_disk

    def is_due(self, applied: int) -> bool:
        """Whether one is to be taken after so many applied steps."""
        return self.most > 0 and applied > 0 and applied % self._settings.disk_every == 0

    def take(self, place: Place, parts: Mapping[str, object]) -> None:
        """Write one.

        Raises:
            CheckpointNotWritten: the disk is full, or the like; those before stand.
        """
        if self._root is None:
            return
        remove_checkpoint(checkpoint_at(self._root, place.step))  # which a process that was killed may have left
        path = write_checkpoint(self._root, place.step, parts, keep=None)
        gone = self._shelf.room()
        if gone is not None:
            if self._last_gone is not None:
                remove_checkpoint(self._last_gone)
            self._last_gone = gone
        self._shelf.put(place, path)

    def parts(self, place: Place) -> dict[str, Any]:
        """The state of a place.

        Raises:
            CheckpointDamaged: its files are not what was written.
            FileNotFoundError: they are gone.
        """
        path = self._shelf.item(place)
        if path is None:
            raise FileNotFoundError(f"guard: the snapshot of step {place.step} is not on disk")
        return read_checkpoint(path).parts

    def drop_after(self, step: int) -> None:
        """Those after a step are not the run's any more."""
        for path in self._shelf.drop_from(step + 1):
            remove_checkpoint(path)

    def disturb(self, step: int) -> None:
        """Something was seen at a step."""
        self._shelf.disturb(step)

    def settle(self, applied: int) -> None:
        """So many steps are applied."""
        self._shelf.settle(applied)

    def places(self) -> tuple[Place, ...]:
        """Of the good ones, the newest first."""
        return self._shelf.places()

    def forget(self) -> None:
        """None of them can be gone back to, those of an earlier process least of all."""
        self.resume(())

    def state(self) -> list[list[int | bool]]:
        """Which there are, as JSON can hold it."""
        return self._shelf.state()

    def resume(self, state: Iterable[Sequence[Any]]) -> list[int]:
        """Know those of a ``state()``; what an earlier process wrote beside them goes.

        Returns:
            Steps of those that are gone.
        """
        self._shelf.load(state, self._found)
        self._last_gone = None
        gone = self._shelf.drop_lost()
        known = {self._shelf.item(place) for place in self._shelf.all_places()}
        for found in [] if self._root is None else find_checkpoints(self._root):
            if found.path not in known:
                remove_checkpoint(found.path)
        return gone

    def _found(self, step: int) -> Path | None:
        path = None if self._root is None else checkpoint_at(self._root, step)
        return path if path is not None and path.is_dir() else None
