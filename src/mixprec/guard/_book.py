"""The incidents of a run: opened before anything is done, and closed when it has been quiet for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..records import IncidentOutcome, IncidentRecord, read_line, record_line
from ._decision import Decision
from ._seen import Seen
from ._trigger import TRIGGERS, Trigger


@dataclass
class _Open:
    record: IncidentRecord
    #: Applied steps from which on it is over, unless something comes.
    over_at: int
    #: Whether the state that the run goes on with is from before it: then it has no say in what is decided.
    is_past: bool = False


class IncidentBook:
    """Numbers incidents, extends those that go on, and says when they are over.

    Args:
        recipe: that records tell.
        seed: likewise.
        quiet: applied steps without a trigger after which an incident is over.
        suspect: applied steps after which one is over that was only told.

    Attributes:
        number: of the last incident.
    """

    def __init__(self, recipe: str, seed: int, *, quiet: int, suspect: int) -> None:
        self._recipe, self._seed, self._quiet, self._suspect = recipe, seed, quiet, suspect
        self.number = 0
        self._open: dict[int, _Open] = {}
        self._closed: list[IncidentRecord] = []

    @property
    def incidents(self) -> tuple[IncidentRecord, ...]:
        """All of the run, as they stand, by number."""
        found = [*self._closed, *(one.record for one in self._open.values())]
        return tuple(sorted(found, key=lambda record: record.number))

    @property
    def is_acting(self) -> bool:
        """Whether an incident is open that something was done about."""
        return any(one.record.rung != "tell" for one in self._at_hand() if one.record.outcome == "open")

    @property
    def is_suspect(self) -> bool:
        """Whether something was told of late that speaks for a fault of the state."""
        return any(TRIGGERS[one.record.trigger] == "told" for one in self._at_hand())

    def open(self, decision: Decision, seen: Seen, *, is_rehearsed: bool) -> list[IncidentRecord]:
        """Write down what is about to be done; a skip after a skip, or a trigger that was told before, goes on."""
        same = self._same(decision.trigger, "tell" if is_rehearsed else decision.rung)
        if same is not None and (is_rehearsed or decision.rung in ("skip", "tell", "scale")):
            return (
                [self._extended(same, decision, seen)]
                if decision.rung in ("skip", "scale")
                else self._longer(same, seen)
            )
        only_told = is_rehearsed or decision.rung == "tell"
        written = self._close_past(decision.trigger, seen.step)
        written += [] if only_told else self._close_acting(seen.step)
        self.number += 1
        record = IncidentRecord(
            recipe=self._recipe,
            seed=self._seed,
            number=self.number,
            step=seen.step,
            trigger=decision.trigger.name,
            site=decision.trigger.site,
            evidence=_evidence(decision, seen),
            rung=decision.rung,
            action=f"would be: {decision.action()}" if is_rehearsed else decision.action(),
            back_to=None if is_rehearsed or decision.back_to is None else decision.back_to.reached.step,
            batches=() if is_rehearsed else decision.leave_out,
            lost_steps=1 if decision.rung in ("skip", "scale") and not is_rehearsed else 0,
            outcome="rehearsed" if is_rehearsed else "open",
        )
        self._open[self.number] = _Open(record, seen.step + (self._suspect if only_told else self._quiet))
        return [*written, record]

    def cost(self, number: int, *, steps: int, seconds: float) -> IncidentRecord:
        """Write down what going back has cost."""
        one = self._open[number]
        record = one.record
        one.record = replace(record, lost_steps=record.lost_steps + steps, lost_seconds=record.lost_seconds + seconds)
        return one.record

    def settle(self, step: int) -> list[IncidentRecord]:
        """So many steps are applied: those that are over."""
        over = [number for number, one in self._open.items() if step >= one.over_at]
        return [self._close(number, "recovered", step) for number in over]

    def stop(self, step: int) -> list[IncidentRecord]:
        """The run ends by the last incident; those that are open end with it."""
        return [self._close(number, "stopped", step) for number in list(self._open)]

    def finish(self, step: int) -> list[IncidentRecord]:
        """The run is done: those that are open are over."""
        return [self._close(number, "recovered", step) for number in list(self._open)]

    def _same(self, trigger: Trigger, rung: str) -> _Open | None:
        for one in self._at_hand():
            record = one.record
            told = "tell" if record.outcome == "rehearsed" else record.rung
            if told == rung and (record.trigger == trigger.name or rung == "skip"):
                return one
        return None

    def _extended(self, one: _Open, decision: Decision, seen: Seen) -> IncidentRecord:
        record = one.record
        batches = tuple(sorted({*record.batches, *decision.leave_out}))
        if record.outcome != "rehearsed":
            action = replace(decision, leave_out=batches).action()
            evidence = _with_others(record, (decision.trigger.name, *decision.others))
            one.record = replace(
                record, batches=batches, lost_steps=record.lost_steps + 1, action=action, evidence=evidence
            )
        one.over_at = max(one.over_at, seen.step + self._quiet)
        return one.record

    def _longer(self, one: _Open, seen: Seen) -> list[IncidentRecord]:
        one.over_at = max(one.over_at, seen.step + self._suspect)
        return []

    def _close_acting(self, step: int) -> list[IncidentRecord]:
        acting = [number for number, one in self._open.items() if one.record.rung != "tell"]
        return [self._close(number, "again", step) for number in acting]

    def _close(self, number: int, outcome: IncidentOutcome, step: int) -> IncidentRecord:
        record = self._open.pop(number).record
        record = replace(record, outcome="rehearsed" if record.outcome == "rehearsed" else outcome, resolved=step)
        self._closed.append(record)
        return record

    def _close_past(self, trigger: Trigger, step: int) -> list[IncidentRecord]:
        """What ended with an earlier process has come again, now that the run is there again."""
        same = [number for number, one in self._open.items() if one.is_past and one.record.trigger == trigger.name]
        return [self._close(number, "again", step) for number in same]

    def _at_hand(self) -> list[_Open]:
        return [one for one in self._open.values() if not one.is_past]

    def state(self) -> dict[str, Any]:
        """Those that are open, as JSON can hold them; the rest is in a run's records."""
        return {"number": self.number, "open": [[record_line(one.record), one.over_at] for one in self._at_hand()]}

    def remember(self, records: Iterable[IncidentRecord], step: int) -> None:
        """Know the incidents that a run's records tell; open ones are over once the run has passed them again.

        Args:
            records: of the run, the last one of each number.
            step: applied steps from which on the run goes on.
        """
        for record in records:
            self.number = max(self.number, record.number)
            if record.outcome == "open":
                self._open[record.number] = _Open(record, max(record.step, step) + self._quiet, is_past=True)
            else:
                self._closed.append(record)

    def load(self, state: Mapping[str, Any], step: int) -> None:
        """Go on from a ``state()`` after so many steps: what was open then is so again, whatever came of it since."""
        found = [(read_line(line.encode(), "a guard's state", 1), int(over_at)) for line, over_at in state["open"]]
        again = {one.number: _Open(one, over_at) for one, over_at in found if isinstance(one, IncidentRecord)}
        known = [record for record in self.incidents if record.number not in again]
        self._open, self._closed = again, []
        self.number = max(self.number, int(state["number"]))
        self.remember(known, step)


def _with_others(record: IncidentRecord, names: tuple[str, ...]) -> dict[str, float | str]:
    """The evidence, with what else was seen since."""
    also = [name for name in str(record.evidence.get("also", "")).split(", ") if name]
    also += [name for name in dict.fromkeys(names) if name not in (record.trigger, *also)]
    return {**record.evidence, **({"also": ", ".join(also)} if also else {})}


def _evidence(decision: Decision, seen: Seen) -> dict[str, float | str]:
    evidence = dict(decision.trigger.evidence)
    if seen.batch is not None:
        evidence["batch"] = float(seen.batch)
    if decision.others:
        evidence["also"] = ", ".join(decision.others)
    return evidence
