"""What a session leaves on disk: records, recipe, versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..monitor import RECIPE, RunRecords, recorded_steps, resumed_text
from ..records import RESUMED, EvaluationRecord, EventRecord, IncidentRecord, Record, StepRecord, replace_file
from ..specs import Recipe
from ._result import Event
from ._same_run import check_same_run
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
        incidents: that an earlier process has recorded, the last record of each.

    Raises:
        ValueError: it is a file, or holds a comparison, or a run of another recipe or seed, or damaged records; or
            another process writes it.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, recipe: Recipe, seed: int) -> None:
        self.path, self.recipe, self.seed = Path(path), recipe, seed
        self._told = set[tuple[str, str]]()
        self.incidents: tuple[IncidentRecord, ...] = ()
        #: With the applied steps after each of them.
        self._replaced: list[tuple[int, StepRecord | EvaluationRecord]] = []
        self._records = RunRecords(path, self._look_through)
        self._is_earlier, self._held = self._records.recorded > 0, list[Event]()
        if not self._is_earlier:
            self._write_facts()
        if self._records.note:
            self.write_events([Event(step=0, name="not locked", message=self._records.note)])

    def close(self) -> None:
        """Let others write the folder."""
        self._records.release()

    def write_events(self, events: Sequence[Event]) -> None:
        """Append events that belong to no step, those left out that an earlier attempt wrote alike."""
        if self._is_earlier:
            self._held += events
            return
        new = [event for event in events if (event.name, event.message) not in self._told]
        self.write(self._as_records(new))

    def write(self, records: Sequence[Record]) -> None:
        """Append records; nothing while an earlier run's stand."""
        if not self._is_earlier:
            self._records.write(records)

    def go_on(self, step: int) -> list[Event]:
        """Continue from a saved state: what was recorded from its step on is replaced by what follows.

        Nothing is deleted: an event says so, and whoever reads the records follows it. Where the run had gone back to
        before the step, and ended before it was there again, the steps between are written again as they were.

        Args:
            step: applied steps of the state.

        Returns:
            The events that were written for it.

        Raises:
            ValueError: the folder's run never reached the step; nothing is changed then.
        """
        self.refuse_ahead(step)
        if not self._records.recorded:
            return []
        again = [record for end, record in self._replaced if end <= step] if self._is_earlier else []
        recorded = recorded_steps(again, self._records.recorded)
        events = [Event(step=step, name=RESUMED, message=resumed_text(step, recorded))]
        if self._is_earlier:
            events += [Event(step=step, name="versions", message=text) for text in self._write_facts()]
        self._is_earlier, self._replaced = False, []
        held, self._held = self._held, []
        self._told = self._told if step else set()  # from the start on, everything is told anew
        self.write([*again, *self._as_records(events)])
        self.write_events(held)
        return events

    def refuse_ahead(self, step: int) -> None:
        """Refuse a state of a step that the folder's run never reached.

        Raises:
            ValueError: it did not.
        """
        if self._is_earlier and step > self._records.reached:
            raise ValueError(
                f"run folder {self.path} ends after {self._records.reached} steps, the state that is loaded is of "
                f"step {step}: they are not of one run; give run= a folder of its own"
            )

    def sync(self) -> None:
        """Wait until the disk has the records: a checkpoint that is whole must not be ahead of them."""
        self._records.sync()

    def refuse_earlier(self, what: str) -> None:
        """Refuse a step while an earlier run's records stand and nobody has said that it is continued.

        Raises:
            ValueError: they do.
        """
        if self._is_earlier:
            raise ValueError(
                f"{what}: run folder {self.path} holds {self._records.recorded} steps of an earlier run: continue it "
                "by session.load_state_dict(...) with what session.state_dict() gave there, or give run= another folder"
            )

    def _as_records(self, events: Sequence[Event]) -> list[EventRecord]:
        return [event.record(self.recipe.name, self.seed) for event in events]

    def _look_through(self, earlier: Sequence[Record]) -> None:
        """Refuse another run's records; remember what this one's have told."""
        check_same_run(self.path, earlier, self.recipe, self.seed)
        self._told = {(r.name, r.message) for r in earlier if isinstance(r, EventRecord)}
        self._replaced = _replaced(earlier)
        self.incidents = tuple({r.number: r for r in earlier if isinstance(r, IncidentRecord)}.values())

    def _write_facts(self) -> list[str]:
        """Write recipe and versions; say which versions differ from those that were there."""
        replace_file(self.path / RECIPE, self.recipe.to_toml().encode())
        file, now = self.path / "versions.json", machine_facts()
        before = _read_versions(file) if file.exists() else now
        replace_file(file, (json.dumps(now, indent=2) + "\n").encode())
        changed = changed_facts(before, now)
        return [f"last bits may differ from those of the earlier part: {', '.join(changed)}"] if changed else []


def _replaced(earlier: Sequence[Record]) -> list[tuple[int, StepRecord | EvaluationRecord]]:
    """Steps and evaluations of which a run that went back has none in their place, each as it was recorded last."""
    recorded, found = recorded_steps(earlier), dict[tuple[int, str], StepRecord | EvaluationRecord]()
    for record in earlier:
        if isinstance(record, StepRecord) and record.step >= recorded:
            found[record.step + 1, ""] = record
        elif isinstance(record, EvaluationRecord) and record.step > recorded:
            found[record.step, record.forward] = record
    return [(end, found[end, what]) for end, what in sorted(found)]


def _read_versions(file: Path) -> dict[str, str | int]:
    """What was written there; nothing where that cannot be read, so that every version counts as changed."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}
