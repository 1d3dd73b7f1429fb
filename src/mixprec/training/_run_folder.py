"""What a session leaves on disk: records, recipe, versions."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..records import RESUMED, EventRecord, Record, RunLock, StepRecord, read_records, replace_file, write_records
from ..specs import Recipe
from ._result import Event, StepResult
from ._same_run import RECIPE, RECORDS, check_same_run, recorded_steps
from .checkpoint import changed_facts, machine_facts


class RunFolder:
    """A folder that a run appends to; made at once, so that a wrong path fails before training.

    A folder that holds steps of an earlier run takes none before ``go_on`` has said from which step that run is
    continued; until then nothing in it changes.

    Args:
        path: the folder; made with its parents.
        recipe: written as ``recipe.toml``.
        seed: told in every record.

    Attributes:
        path: the folder.
        recipe: told in every record, by its name.
        seed: as well.

    Raises:
        ValueError: it is a file, or holds a comparison, or a run of another recipe or seed, or damaged records; or
            another process writes it.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, recipe: Recipe, seed: int) -> None:
        self.path, self.recipe, self.seed = Path(path), recipe, seed
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"run folder {self.path} is a file: give a folder, which is made if needed")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(self.path)
        try:
            earlier = read_records(self._records) if self._records.exists() else []
            check_same_run(self.path, earlier, recipe, seed)
        except (OSError, ValueError):
            self.close()
            raise
        self._recorded = recorded_steps(earlier)
        self._told = {(r.name, r.message) for r in earlier if isinstance(r, EventRecord)}
        self._is_earlier, self._held = self._recorded > 0, list[Event]()
        if not self._is_earlier:
            self._write_facts()
        self._last = time.perf_counter()
        if self._lock.note:
            self.write_events([Event(step=0, name="not locked", message=self._lock.note)])

    def close(self) -> None:
        """Let others write the folder."""
        self._lock.release()

    def write_events(self, events: Sequence[Event]) -> None:
        """Append events that belong to no step, those left out that an earlier attempt wrote alike."""
        if self._is_earlier:
            self._held += events
            return
        new = [event for event in events if (event.name, event.message) not in self._told]
        write_records(self._records, [self._event(event) for event in new])

    def write(self, records: Sequence[Record]) -> None:
        """Append what watchers have measured; nothing while an earlier run's records stand."""
        if not self._is_earlier:
            write_records(self._records, records)

    def go_on(self, step: int) -> list[Event]:
        """Continue from a saved state: what was recorded from its step on is replaced by what follows.

        Nothing is deleted: an event says so, and whoever reads the records follows it.

        Args:
            step: applied steps of the state.

        Returns:
            The events that were written for it.

        Raises:
            ValueError: the folder's run never reached the step; nothing is changed then.
        """
        self.refuse_ahead(step)
        if not self._recorded:
            return []
        events = [Event(step=step, name=RESUMED, message=f"resumed from step {step} of {self._recorded} recorded ones")]
        if self._is_earlier:
            events += [Event(step=step, name="versions", message=text) for text in self._write_facts()]
        self._is_earlier, self._recorded = False, step
        held, self._held = self._held, []
        self._told = self._told if step else set()  # from the start on, everything is told anew
        write_records(self._records, map(self._event, events))
        self.write_events(held)
        self._last = time.perf_counter()
        return events

    def refuse_ahead(self, step: int) -> None:
        """Refuse a state of a step that the folder's run never reached.

        Raises:
            ValueError: it did not.
        """
        if self._is_earlier and step > self._recorded:
            raise ValueError(
                f"run folder {self.path} ends after {self._recorded} steps, the state that is loaded is of step "
                f"{step}: they are not of one run; give run= a folder of its own"
            )

    def sync(self) -> None:
        """Wait until the disk has the records: a checkpoint that is whole must not be ahead of them."""
        if self._records.exists():
            with open(self._records, "rb") as file:
                os.fsync(file.fileno())

    def refuse_earlier(self, what: str) -> None:
        """Refuse a step while an earlier run's records stand and nobody has said that it is continued.

        Raises:
            ValueError: they do.
        """
        if self._is_earlier:
            raise ValueError(
                f"{what}: run folder {self.path} holds {self._recorded} steps of an earlier run: continue it by "
                "session.load_state_dict(...) with what session.state_dict() gave there, or give run= another folder"
            )

    def write_step(self, step: int, losses: Sequence[float], result: StepResult, loss_scale: float | None) -> None:
        """Append a step and its events; its time is that since the last one.

        Args:
            step: applied steps before it; a skipped step shares its number with the next.
            losses: that were backpropagated; their sum is told, NaN if none came through the session.
            result: of the step.
            loss_scale: that the step ran under, or ``None``.
        """
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        self._recorded = step + 1
        record = StepRecord(
            recipe=self.recipe.name,
            seed=self.seed,
            step=step,
            loss=sum(losses) if losses else math.nan,
            seconds=seconds,
            applied=result.applied,
            grad_norm=result.grad_norm,
            loss_scale=loss_scale,
            tokens=None,
        )
        write_records(self._records, [record, *map(self._event, result.events)])

    @property
    def _records(self) -> Path:
        return self.path / RECORDS

    def _write_facts(self) -> list[str]:
        """Write recipe and versions; say which versions differ from those that were there."""
        replace_file(self.path / RECIPE, self.recipe.to_toml().encode())
        file, now = self.path / "versions.json", machine_facts()
        before = _read_versions(file) if file.exists() else now
        replace_file(file, (json.dumps(now, indent=2) + "\n").encode())
        changed = changed_facts(before, now)
        return [f"last bits may differ from those of the earlier part: {', '.join(changed)}"] if changed else []

    def _event(self, event: Event) -> EventRecord:
        return EventRecord(
            recipe=self.recipe.name,
            seed=self.seed,
            step=event.step,
            name=event.name,
            site=event.site,
            message=event.message,
        )


def _read_versions(file: Path) -> dict[str, str | int]:
    """What was written there; nothing where that cannot be read, so that every version counts as changed."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}
