"""Which rung is taken: from the mildest that is on and not used up to the end of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..records import Rung
from ._decision import Decision, Place, Possible
from ._seen import Seen
from ._settings import Escalate, Guard, Scale
from ._trigger import Kind, Trigger

#: Rungs in the order in which they are tried, by the kind of fault. What came back soon after the run went back for it
#: is no matter of the batches alone: then wider casts come before going back once more.
_FIRST: Mapping[Kind, tuple[Rung, ...]] = MappingProxyType(
    {
        "state": ("rewind", "stop"),
        "precision": ("escalate",),
        "batch": ("skip", "rewind", "escalate", "stop"),
        "scale": ("scale", "rewind", "escalate", "stop"),
        "trend": ("rewind", "escalate", "stop"),
        "told": (),
    }
)
_AGAIN: Mapping[Kind, tuple[Rung, ...]] = MappingProxyType(
    {
        **_FIRST,
        "batch": ("skip", "escalate", "rewind", "stop"),
        "trend": ("escalate", "rewind", "stop"),
        # What has damaged the state is there still: steps wait for its end.
        "told": ("skip",),
    }
)
#: A growing outlier does no harm by itself for long: where going back does not help, it is told.
_GENTLE = frozenset({"outlier growth"})


@dataclass(frozen=True)
class _Case:
    trigger: Trigger
    kind: Kind
    seen: Seen
    possible: Possible
    #: Whether the run has gone back lately for something that is not over.
    is_again: bool


class Ladder:
    """Chooses, and remembers what it has chosen: limits count over a whole run, whatever the run goes back to.

    Args:
        settings: of the guard.

    Example:
        >>> from mixprec.guard import Place
        >>> ladder, spike = Ladder(Guard()), Trigger(name="loss spike", evidence={"loss": 9.0})
        >>> decision = ladder.choose(spike, Seen(step=50, batch=50), Possible(places=(Place(step=40, batch=40),)))
        >>> print(decision.action())
        the step is left out, with batch 50
    """

    def __init__(self, settings: Guard) -> None:
        self._settings = settings
        self._skips_in_row = 0
        self._scaled: list[int] = []
        self._rewound: list[int] = []
        self._escalated = self._again = 0
        self._until = -1
        self._applied_since = 0  # steps since the run went back

    def choose(self, trigger: Trigger, seen: Seen, possible: Possible, *, is_suspect: bool = False) -> Decision:
        """Take a rung.

        Args:
            trigger: the gravest one.
            seen: the step.
            possible: what is there to act with.
            is_suspect: whether something was told lately that speaks for a fault of the state, not of batches.
        """
        kind = "state" if is_suspect and trigger.kind in ("batch", "trend") else trigger.kind
        case = _Case(trigger, kind, seen, possible, seen.step <= self._until)
        for rung in (_AGAIN if case.is_again else _FIRST)[kind]:
            is_harmless = rung == "stop" and trigger.name in _GENTLE
            if not is_harmless and self._is_left(rung, case):
                return self._filled(rung, case)
        return Decision(rung="tell", trigger=trigger)

    def take(self, decision: Decision, seen: Seen) -> None:
        """Count a rung that is really taken."""
        if decision.rung == "skip":
            self._skips_in_row += 1
        elif decision.rung == "scale":
            self._scaled.append(seen.step)
        elif decision.rung in ("rewind", "escalate"):
            self._again = self._again + 1 if seen.step <= self._until else 0
            self._until = max(self._until, seen.step + self._settings.snapshots.quiet)
            self._applied_since = 0
            self._skips_in_row = 0
            if decision.rung == "escalate":
                self._escalated += 1
            else:
                self._rewound.append(seen.step)

    def applied(self) -> None:
        """A step was applied."""
        self._skips_in_row = 0
        self._applied_since += 1

    def _is_left(self, rung: Rung, case: _Case) -> bool:
        settings, seen, possible = self._settings, case.seen, case.possible
        match rung:
            case "skip":
                most = 0 if settings.skip is None else settings.skip.limit
                if case.kind == "told":  # what comes again after other steps lies in the schedule: waiting is no use
                    return most > 0 and not self._applied_since and self._skips_in_row < 2 * settings.snapshots.every
                return self._skips_in_row < most
            case "scale":
                own = settings.scale
                return own is not None and _within(self._scaled, seen.step, own.window) < own.limit
            case "rewind":
                own = settings.rewind
                is_left = own is not None and _within(self._rewound, seen.step, own.window) < own.limit
                return is_left and bool(possible.places)
            case "escalate":
                own = settings.escalate
                return own is not None and self._escalated < own.limit and bool(possible.places and possible.narrow)
            case _:
                return rung == "stop" and settings.stops

    def _filled(self, rung: Rung, case: _Case) -> Decision:
        """A rung with all that belongs to it."""
        trigger, newest = case.trigger, next(iter(case.possible.places), None)
        match rung:
            case "skip":
                return Decision(rung=rung, trigger=trigger, leave_out=_own_batches(case.seen))
            case "scale":
                factor = Scale().factor if self._settings.scale is None else self._settings.scale.factor
                up = trigger.name == "gradients vanish"
                return Decision(rung=rung, trigger=trigger, factor=1.0 / factor if up else factor)
            case "rewind":
                place = self._place(case)
                return Decision(rung=rung, trigger=trigger, back_to=place, leave_out=self._left_out(place, case))
            case "escalate":
                sites, to = self._wider(case)
                return Decision(rung=rung, trigger=trigger, back_to=newest, sites=sites, to=to)
            case _:
                return Decision(rung=rung, trigger=trigger, back_to=newest)

    def _place(self, case: _Case) -> Place:
        """What came back is older than was thought: one snapshot further each time."""
        places = case.possible.places
        return places[min(self._again + 1 if case.is_again else 0, len(places) - 1)]

    def _left_out(self, place: Place, case: _Case) -> tuple[int, ...]:
        batch, rewind = case.seen.batch, self._settings.rewind
        if batch is None or rewind is None or not rewind.batches or case.kind == "state":
            return ()
        # Whole steps are left out: those that follow have the batches together that they would have had.
        each = max(len(case.seen.batches), 1)
        steps = min(max(rewind.batches // each, 1), (batch + 1 - place.batch) // each)
        return tuple(range(batch + 1 - steps * each, batch + 1))

    def _wider(self, case: _Case) -> tuple[tuple[str, ...], str | None]:
        """The operand that was seen, else those that are known to be noisy; what came back then, all of them."""
        most = Escalate().most_sites if self._settings.escalate is None else self._settings.escalate.most_sites
        site = case.trigger.site if case.kind == "precision" else ""
        sites = (site,) if site else case.possible.guilty[:most]
        if not sites or (case.is_again and self._escalated):
            sites = case.possible.narrow
        return sites, "compute" if case.is_again and self._escalated > 1 else None

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {
            "skips_in_row": self._skips_in_row,
            "scaled": list(self._scaled),
            "rewound": list(self._rewound),
            "escalated": self._escalated,
            "again": self._again,
            "until": self._until,
            "applied_since": self._applied_since,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        self._skips_in_row, self._escalated = int(state["skips_in_row"]), int(state["escalated"])
        self._again, self._until = int(state["again"]), int(state["until"])
        self._applied_since = int(state["applied_since"])
        self._scaled, self._rewound = list(state["scaled"]), list(state["rewound"])


def _own_batches(seen: Seen) -> tuple[int, ...]:
    return seen.batches or (() if seen.batch is None else (seen.batch,))


def _within(steps: list[int], now: int, window: int) -> int:
    return sum(abs(now - step) < window for step in steps)
