"""The guard's mind: what it sees in a step, and what it does about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..monitor.alarms import High, LossLevel, NormLevel
from ..records import IncidentRecord, StatisticsRecord
from ._book import IncidentBook
from ._decision import Decision, Possible
from ._ladder import Ladder
from ._precision_level import PrecisionLevel
from ._rates import RateLevel
from ._seen import Seen
from ._settings import Guard
from ._state_level import StateLevel
from ._trigger import Trigger, in_order
from ._zclip import ZClip

#: Applied steps for which something that was only told speaks for a fault of the state.
SUSPECT = 40
#: Steps in a row whose gradients are all zero under a static scale.
_ZEROS = 5
#: Beyond it a larger loss scale overflows sooner than it helps.
_LARGEST_SCALE = 2.0**24


class Guardian:
    """Looks at each step before its update, and chooses a rung where something is wrong.

    It knows numbers only: whoever owns the weights shows it a step (``look``), lets ranks agree on the triggers, asks
    what to do (``decide``), does it, and says that a step was applied (``applied``).

    Args:
        settings: what it may do.
        recipe: that its incidents tell.
        seed: likewise.

    Example:
        >>> from mixprec.guard import Place
        >>> guardian = Guardian(Guard(), recipe="bf16", seed=0)
        >>> for step in range(50):
        ...     seen = Seen(step=step, batch=step, losses={"loss": 2.0 + 0.01 * (step % 3)}, grad_norm=1.0)
        ...     assert not guardian.look(seen)
        ...     _ = guardian.applied(seen)
        >>> seen = Seen(step=50, batch=50, losses={"loss": 9.0}, grad_norm=1.0)
        >>> decision, records = guardian.decide(guardian.look(seen), seen, Possible(places=(Place(step=40, batch=40),)))
        >>> decision.rung, records[0].trigger, records[0].action
        ('skip', 'loss spike', 'the step is left out, with batch 50')
    """

    def __init__(self, settings: Guard, *, recipe: str, seed: int) -> None:
        self.settings = settings
        self.ladder = Ladder(settings)
        self.book = IncidentBook(recipe, seed, quiet=settings.snapshots.quiet, suspect=SUSPECT)
        self.precision = PrecisionLevel(settings.thresholds, drift=settings.drift, target=settings.largest_gap)
        self._losses: dict[str, LossLevel] = {}
        self._norms: dict[str, NormLevel] = {}
        self._rates, self._state = RateLevel(), StateLevel()
        self._clip = None if settings.clip is None else ZClip(settings.clip)
        self._heard: list[Trigger] = []
        self._skipped = self._zeros = 0

    def hear(self, records: Iterable[StatisticsRecord]) -> None:
        """Operands were sampled; what is wrong with them counts for the next step."""
        self._heard += self.precision.look(records)

    def hear_gap(self, gap: float, *, baseline: float) -> Trigger | None:
        """A shadow has measured the gap of the precision."""
        found = self.precision.gap(gap, baseline=baseline)
        self._heard += [] if found is None else [found]
        return found

    def look(self, seen: Seen) -> list[Trigger]:
        """What is wrong with a step, the gravest first; nothing of the step is remembered yet."""
        found = [*self._heard, *self._state.judge(seen.state), *self._rates.judge(seen.rates)]
        for name, loss in seen.losses.items():
            found += self._judged(name, loss, seen.turn)
        if seen.is_finite:
            high = self._norm(seen.turn).judge(seen.grad_norm) if _is_ordinary(seen.grad_norm) else None
            found += [] if high is None else [_trigger("gradient norm", high)]
            found += self._vanishing(seen)
        else:
            found += self._overflow(seen, {trigger.name for trigger in found})
        return in_order(found)

    def decide(
        self, triggers: list[Trigger], seen: Seen, possible: Possible
    ) -> tuple[Decision | None, list[IncidentRecord]]:
        """Choose what to do about triggers, on which all ranks agree.

        Returns:
            The decision, ``None`` where nothing is to be done; and the incidents that are to be written before it is.
        """
        self._heard.clear()
        if not triggers:
            return None, []
        triggers = in_order(triggers)  # those of other ranks are among them
        decision = self.ladder.choose(triggers[0], seen, possible, is_suspect=self.book.is_suspect)
        others = tuple(dict.fromkeys(t.name for t in triggers[1:] if t.name != triggers[0].name))
        decision = replace(decision, others=others)
        is_rehearsed = self.settings.dry_run and decision.rung != "tell"
        records = self.book.open(decision, seen, is_rehearsed=is_rehearsed)
        if is_rehearsed or decision.rung == "tell":
            return None, records
        self.ladder.take(decision, seen)
        if decision.rung == "stop":
            records += self.book.stop(seen.step)
        return decision, records

    def clip_to(self, seen: Seen) -> float | None:
        """The norm that a step's gradient is clipped to by its z-score; ``None``: as it is."""
        return None if self._clip is None or not seen.is_finite else self._clip.limit(seen.grad_norm)

    def applied(self, seen: Seen) -> list[IncidentRecord]:
        """A step was applied: its numbers are the past now; incidents that are over by it."""
        for name, loss in seen.losses.items():
            if math.isfinite(loss):
                self._loss(name, seen.turn).admit(loss)
        if _is_ordinary(seen.grad_norm):
            self._norm(seen.turn).admit(seen.grad_norm)
        self._state.admit(seen.state)
        self._rates.admit(seen.rates)
        if self._clip is not None:
            self._clip.admit(seen.grad_norm)
        self._skipped = 0
        self.ladder.applied()
        return self.book.settle(seen.step + 1)

    def skipped(self) -> None:
        """A step was not applied."""
        self._skipped += 1

    def went_back(self, levels: Mapping[str, Any]) -> None:
        """The run is what it was: so is what is ordinary. What was done is not forgotten."""
        self.load_levels(levels)
        self._heard.clear()
        self._skipped = self._zeros = 0

    def _judged(self, name: str, loss: float, turn: str) -> list[Trigger]:
        if not math.isfinite(loss):
            return [Trigger(name="loss not finite", evidence={name: loss})]
        high = self._loss(name, turn).judge(loss)
        return [] if high is None else [_trigger(name, high)]

    def _loss(self, name: str, turn: str) -> LossLevel:
        key = f"{turn}: {name}" if turn else name
        if key not in self._losses:
            self._losses[key] = LossLevel(self.settings.thresholds)
        return self._losses[key]

    def _norm(self, turn: str) -> NormLevel:
        if turn not in self._norms:
            self._norms[turn] = NormLevel(self.settings.thresholds)
        return self._norms[turn]

    def _vanishing(self, seen: Seen) -> list[Trigger]:
        self._zeros = self._zeros + 1 if seen.grad_norm == 0.0 and seen.losses else 0
        if seen.scaling != "static" or self._zeros < _ZEROS or seen.loss_scale >= _LARGEST_SCALE:
            return []
        self._zeros = 0
        return [Trigger(name="gradients vanish", evidence={"steps": float(_ZEROS), "loss scale": seen.loss_scale})]

    def _overflow(self, seen: Seen, found: set[str]) -> list[Trigger]:
        """A gradient that is not finite: of a dynamic scale the ordinary way to its level, for a while."""
        evidence: dict[str, float | str] = {"loss scale": seen.loss_scale}
        if "loss not finite" in found:
            return []
        if seen.scaling == "none":
            return [Trigger(name="gradient not finite", site=seen.located)]
        if seen.scaling == "static":
            return [Trigger(name="gradients overflow", site=seen.located, evidence=evidence)]
        if self._skipped + 1 < self.settings.thresholds.skipped_in_row:
            return []
        evidence["steps"] = float(self._skipped + 1)
        return [Trigger(name="skipped in a row", site=seen.located, evidence=evidence)]

    def levels(self) -> dict[str, Any]:
        """What is ordinary, as JSON can hold it; a snapshot holds it."""
        return {
            "losses": {name: level.state() for name, level in self._losses.items()},
            "norms": {turn: level.state() for turn, level in self._norms.items()},
            "state": self._state.state(),
            "rates": self._rates.state(),
            "precision": self.precision.state(),
            "clip": {} if self._clip is None else self._clip.state(),
        }

    def load_levels(self, state: Mapping[str, Any]) -> None:
        """Continue from ``levels()``."""
        self._losses, self._norms = {}, {}
        for key, level in state["losses"].items():
            turn, _, name = key.rpartition(": ")
            self._loss(name, turn).load(level)
        for turn, level in state["norms"].items():
            self._norm(turn).load(level)
        self._state.load(state["state"])
        self._rates.load(state["rates"])
        self.precision.load(state["precision"])
        if self._clip is not None and state["clip"]:
            self._clip.load(state["clip"])

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run goes on with, as JSON can hold it."""
        counts = {"skipped": self._skipped, "zeros": self._zeros}
        return {"levels": self.levels(), "ladder": self.ladder.state(), "counts": counts, "book": self.book.state()}

    def load_state_dict(self, state: Mapping[str, Any], step: int) -> None:
        """Continue from a ``state_dict()`` after so many applied steps."""
        self.book.load(state["book"], step)
        self.load_levels(state["levels"])
        self.ladder.load(state["ladder"])
        self._skipped, self._zeros = int(state["counts"]["skipped"]), int(state["counts"]["zeros"])


def _trigger(what: str, high: High) -> Trigger:
    return Trigger(name=high.name, evidence={what: high.value, "median": high.middle, "limit": high.limit})


def _is_ordinary(norm: float) -> bool:
    """Whether a norm has a logarithm."""
    return 0.0 < norm < math.inf
