"""A guard at work in a session: shows it each step, and does what it decides."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from ...guard import Decision, Guard, Guardian, Place, Possible, Seen, Trigger
from ...records import IncidentRecord, Record, StatisticsRecord
from .._checkpoint_parts import Restorable
from .._result import Event
from .._scales import DEFAULT
from .._verdict import Verdict
from ._batches import NoLoader, NumberedBatches
from ._guarding import Guarding
from ._ruling import Ruling
from ._run_stopped import RunStopped
from ._snapshots import Snapshotter
from ._state_meter import StateMeter
from ._unguarded import Unguarded

Batch = TypeVar("Batch")

_NO_WAY_BACK = (
    "guard: {} has no state_dict() and load_state_dict(), so that it cannot be taken back: a step can be left out, and "
    "after going back the run trains on with the batches that follow; torchdata's StatefulDataLoader has both"
)
_ELSEWHERE = (
    "guard: incident {} goes back to step {}, where the run was resumed, and not to step {}, whose snapshot ended with "
    "the process before: {}"
)
_AFTER = {
    True: "what follows is the same, bit for bit",
    False: "what follows differs from that of a run that was not interrupted",
}


class Guarded(Unguarded):
    """Made by ``Session.guard``; give it the loader, and every step of the session is looked at.

    Attributes:
        settings: what it may do.
    """

    def __init__(self, settings: Guard, session: Guarding, extra: Mapping[str, Restorable]) -> None:
        super().__init__()
        self.settings, self._session = settings, session
        self._mind = Guardian(settings, recipe=session.listeners.recipe, seed=session.listeners.seed)
        self._mind.book.remember(session.incidents, session.applied())
        self._meter = StateMeter(session.owners({}).model, session.kept)
        self._snapshots = Snapshotter(session, settings.snapshots, extra)
        self._batches: NoLoader = NoLoader()
        self._left_out, self._first = set[int](), 0
        self._is_going_back, self._has_told_of_memory = False, False
        session.listeners.add(self._hear)

    @property
    def incidents(self) -> tuple[IncidentRecord, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]  # read only, here
        """Of the run, by number, each as it stands."""
        return self._mind.book.incidents

    @property
    def is_busy(self) -> bool:
        """Whether something is being done about an incident: a checkpoint had better wait."""
        return self._mind.book.is_acting

    @property
    def snapshot_bytes(self) -> int:
        """That one snapshot takes; as many are held as the settings say, in memory and on disk."""
        return self._snapshots.bytes

    def batches(self, loader: Iterable[Batch], *, leave_out: Iterable[int] = ()) -> Generator[Batch]:
        """The loader's batches, without those that are left out; after going back, from there on again.

        Batches are counted from 0, over several calls too: one for each epoch, of which the run goes back to the
        beginning at most.

        Args:
            loader: any iterable. To be taken back it needs ``state_dict()`` and ``load_state_dict()``; without them an
                event says what the guard can still do.
            leave_out: numbers of batches that are passed over from the start.

        Example:
            >>> import torch
            >>> from mixprec import prepare
            >>> from mixprec.guard import Guard
            >>> model = torch.nn.Linear(2, 1)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
            >>> guarded = session.guard(Guard())
            >>> for x in guarded.batches([torch.ones(4, 2)] * 3, leave_out=[1]):
            ...     result = session.step(model(x).square().mean())
            >>> session.applied, session.incidents
            (2, ())
        """
        self._left_out.update(leave_out)
        batches = NumberedBatches(loader, self._first, self._left_out)
        self._batches = batches
        if not batches.can_go_back:
            text = _NO_WAY_BACK.format(f"the loader ({type(loader).__name__})")
            self._session.tell([Event(step=self._session.applied(), name="guard", message=text)])
        for batch in batches.give(self._begin):
            self._first = batches.next_number
            yield batch
        self._first = batches.next_number
        self._snapshots.forget()

    def before_update(self, verdict: Verdict, step: int) -> Ruling:
        """The gradients of a step are finite, and its update is not made."""
        return self._rule(self._seen(verdict, step))

    def after_skip(self, verdict: Verdict, step: int, located: str) -> Ruling:
        """The gradients of a step are not finite, and it was skipped."""
        ruling = self._rule(self._seen(verdict, step, located))
        self._mind.skipped()
        if not ruling.holds:
            self._batches.end_step()
        return ruling

    def applied(self, ruling: Ruling, applied: int) -> list[Event]:
        """The step was applied."""
        if ruling.seen is None:
            return []
        self._batches.end_step()
        self._record(self._mind.applied(ruling.seen))
        self._snapshots.settle(applied)
        if self._snapshots.is_due(applied):
            self._take()
        if ruling.clip_to is None:
            return []
        message = f"gradient norm {ruling.seen.grad_norm:.4g} clipped to {ruling.clip_to:.4g} by its z-score"
        return [Event(step=ruling.seen.step, name="clipped", message=message)]

    def act(self, ruling: Ruling, applied: int) -> None:
        """Do what was decided about a step that was not applied.

        Raises:
            RunStopped: the run ends.
        """
        decision = ruling.decision
        if decision is None:
            return
        self._batches.leave_out(decision.leave_out)
        if decision.rung in ("skip", "scale"):
            self._batches.give_random_states_back()
            self._batches.end_step()
            if decision.rung == "scale":
                self._session.scales.multiply(decision.factor)
            return
        if decision.rung == "escalate":
            # Before going back, to where a site may be as wide as can be: it has been narrow since, in a later phase.
            self._session.widen(decision.sites, decision.to)
        if decision.back_to is not None:
            self._go_back(ruling.number, decision, decision.back_to, applied)
        if decision.rung == "stop":
            raise RunStopped(self._mind.book.incidents[-1])

    def finish(self) -> None:
        """The run is done: what is open is over, for nothing came of it any more, and no snapshot is needed."""
        self._snapshots.forget()
        self._record(self._mind.book.finish(self._session.applied()))

    def hear_gap(self, gap: float, baseline: float) -> None:
        """A shadow was measured."""
        self._mind.hear_gap(gap, baseline=baseline)

    def state_dict(self) -> dict[str, Any]:
        """What a later process goes on with: a text, for its keys come and go with what was seen."""
        state = {
            "mind": self._mind.state_dict(),
            "batches": self._first,
            "left_out": sorted(self._left_out),
            **self._snapshots.state(),
        }
        return {"text": json.dumps(state)}

    def load_state_dict(self, state: Mapping[str, Any], applied: int) -> None:
        """Go on after so many applied steps; where the run goes back, what was done about it is not forgotten."""
        if not state:
            return
        found = json.loads(state["text"])
        if self._is_going_back:
            self._mind.went_back(found["mind"]["levels"])
            return
        self._mind.load_state_dict(found["mind"], applied)
        self._left_out.update(found["left_out"])
        self._first = int(found["batches"])
        self._batches = NoLoader()
        self._snapshots.resume(found)

    def _hear(self, records: Sequence[Record]) -> None:
        sampled = [record for record in records if isinstance(record, StatisticsRecord)]
        if sampled:
            self._mind.hear(sampled)

    def _begin(self) -> None:
        self._snapshots.begin(self._place(), self._batches.loaders)
        self._tell_of_memory()

    def _take(self) -> None:
        self._snapshots.take(self._place(), self._batches.loaders)
        self._tell_of_memory()

    def _place(self) -> Place:
        return Place(step=self._session.applied(), batch=self._batches.next_number)

    def _tell_of_memory(self) -> None:
        if self._has_told_of_memory:
            return
        self._has_told_of_memory = True
        message = f"guard: {self._snapshots.places_held}"
        self._session.tell([Event(step=self._session.applied(), name="guard", message=message)])

    def _seen(self, verdict: Verdict, step: int, located: str = "") -> Seen:
        scales = self._session.scales
        names = [name for name, _ in verdict.losses] or [DEFAULT]
        batches = self._batches.numbers if self._batches.can_go_back else ()
        return Seen(
            step=step,
            batch=batches[-1] if batches else None,
            batches=batches,
            losses=_means(verdict.losses),
            grad_norm=verdict.norm,
            is_finite=verdict.is_finite,
            scaling=scales.spec(names[0]).kind,
            loss_scale=min(scales.scale(name) for name in names),
            rates=self._rates(),
            located=located,
            turn=", ".join(verdict.steps) if len(self._session.kept) > 1 else "",
            state=self._meter.measure(with_spread=step % self.settings.snapshots.every == 0),
        )

    def _rates(self) -> dict[str, float]:
        """Of each group; one that is a tensor on an accelerator is not waited for."""
        return {
            name if not i else f"{name} ({i})": float(rate)
            for name, kept in self._session.kept.items()
            for i, group in enumerate(kept.optimizer.param_groups)
            if not (isinstance(rate := group.get("lr", 0.0), Tensor) and rate.device.type != "cpu")
        }

    def _rule(self, seen: Seen) -> Ruling:
        triggers, possible = self._agreed(self._mind.look(seen))
        decision, records = self._mind.decide(triggers, seen, possible)
        if triggers:
            self._snapshots.disturb(seen.step)
        self._record(records)
        clip_to = self._mind.clip_to(seen) if decision is None and not self.settings.dry_run else None
        return Ruling(seen=seen, decision=decision, number=self._mind.book.number, clip_to=clip_to)

    def _agreed(self, triggers: list[Trigger]) -> tuple[list[Trigger], Possible]:
        """What all ranks have seen, each thing once, and what can be done: the same on all of them."""
        own = [(triggers, self._guilty())] if triggers else []
        told = self._session.ranks.share(own)
        if not told:
            return [], Possible()
        seen = {(trigger.name, trigger.site): trigger for found, _ in told for trigger in found}
        guilty = next((sites for _, sites in told if sites), ())
        places = self._snapshots.places()
        return list(seen.values()), Possible(places=places, narrow=self._session.narrow(), guilty=guilty)

    def _guilty(self) -> tuple[str, ...]:
        narrow = set(self._session.narrow())
        most = 0 if self.settings.escalate is None else self.settings.escalate.most_sites
        return tuple(site for site in self._mind.precision.sites(most) if site.rpartition(" (")[0] in narrow)

    def _record(self, records: list[IncidentRecord]) -> None:
        self._session.listeners.hear(list[Record](records))

    def _go_back(self, number: int, decision: Decision, place: Place, applied: int) -> None:
        with self._going_back():
            seconds = self._snapshots.go_back(place, self._batches.loaders)
        self._batches.went_back(place.reached.batch)
        self._first = self._batches.next_number if self._batches.can_go_back else self._first
        if place.reached.step != place.step:
            message = _ELSEWHERE.format(number, place.reached.step, place.step, _AFTER[decision.stays_the_same])
            self._session.tell([Event(step=place.reached.step, name="guard", message=message)])
        if decision.rung != "stop":
            self._record([self._mind.book.cost(number, steps=applied - place.reached.step, seconds=seconds)])

    @contextmanager
    def _going_back(self) -> Generator[None]:
        self._is_going_back = True
        try:
            yield
        finally:
            self._is_going_back = False


def _means(losses: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean of each loss over the passes of a step."""
    found: dict[str, list[float]] = {}
    for name, value in losses:
        found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}
