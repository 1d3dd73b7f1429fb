"""One who watches a loop and takes statistics of sampled steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from ...nn import Conversion
from ...records import StatisticsRecord, UpdateRecord
from .._finding import Finding
from .._listeners import Listeners
from .._monitoring import Monitoring
from .._step_watch import QuietWatch, StepFacts
from ._gatherer import Gathered, Gatherer, read_gathered
from ._plain_modules import PlainModules
from ._turns import Turns
from ._unseen import unseen
from ._update_sampler import Compared, UpdateSampler, read_updates


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What a sampler needs to know of a run.

    Attributes:
        model: the root.
        conversion: of it, or ``None``: its modules are plain.
        value: gives the full value of a parameter, fresh.
        idle: gives the identities of parameters whose learning rate is zero.
        optimizers: their names, as the facts of steps tell them; none where there is none.
    """

    model: nn.Module
    conversion: Conversion | None
    value: Callable[[Parameter], Tensor]
    idle: Callable[[], Collection[int]]
    optimizers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Unread:
    """A sampled step whose numbers lie on their device."""

    step: int
    tensors: list[Gathered]
    updates: list[Compared]


class Sampler(QuietWatch):
    """Samples every so many applied steps: operands before their casts, plain modules' tensors, gradients, updates.

    Of several optimizers each counts its own steps. Between sampled steps nothing is on: no hook, no watch. On a CPU
    what was sampled is told at the step's end; of an accelerator it stays there and is told at the next sampled step,
    or when ``statistics`` asks, in one transfer.

    A ``StepWatch``.

    Args:
        sampled: the run.
        monitoring: how often, which sites, which what-ifs.
        listeners: hear the records.
    """

    def __init__(self, sampled: Sampled, monitoring: Monitoring, listeners: Listeners) -> None:
        self._sampled, self._options, self._listeners = sampled, monitoring, listeners
        self._gatherer = Gatherer(monitoring.sites, monitoring.what_if)
        self._modules = PlainModules(sampled.model, self._gatherer, weights=monitoring.weights)
        self._updates = UpdateSampler(sampled.value, sampled.idle, self._gatherer.wants)
        self._watching = ExitStack()
        self._is_on = self._has_judged = False
        self._waiting: _Unread | None = None
        self._statistics: tuple[StatisticsRecord, ...] = ()
        self._found_updates: tuple[UpdateRecord, ...] = ()
        self._reading_seconds = self._gradient_seconds = 0.0
        self._turns = Turns(monitoring.every, sampled.optimizers)
        self._turn()

    @property
    def own_seconds(self) -> float:
        """Time that sampling has taken [s]; of an accelerator, that of handing the work over."""
        return self._gatherer.own_seconds + self._updates.own_seconds + self._reading_seconds

    @property
    def pass_seconds(self) -> float:
        """The part of it that was spent inside of forward and backward passes [s]."""
        return self._gatherer.own_seconds - self._gradient_seconds

    def statistics(self) -> tuple[StatisticsRecord, ...]:
        """Of the last sampled step; waits for the device if they still lie there."""
        self._read()
        return self._statistics

    def updates(self) -> tuple[UpdateRecord, ...]:
        """Of the last sampled step that was applied."""
        self._read()
        return self._found_updates

    def before_update(self, facts: StepFacts) -> None:
        """Sample the gradients, and the weights before they change."""
        if self._turns.is_due(facts.optimizers):
            self._gradients(facts)
            if self._options.updates:
                self._updates.before(facts)

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Sample what has moved; the step is over."""
        found = ()
        if self._turns.is_due(facts.optimizers):
            found = self._end(facts, self._updates.after(facts))
        else:
            self._gatherer.forget()  # its passes were watched for another's sake
        self._turns.take(facts.optimizers)
        self._turn()
        return found

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """Sample the gradients that are not finite; the step is over, and comes again."""
        if not self._turns.is_due(facts.optimizers):
            self._gatherer.forget()
            return ()
        self._gradients(facts)
        return self._end(facts, [])

    def dropped(self) -> None:
        """What was seen belongs to no step."""
        self._gatherer.forget()
        self._updates.forget()

    def failed(self, error: BaseException) -> None:
        """As ``dropped``."""
        self.dropped()

    def close(self) -> None:
        """Take the hooks off; what lies on a device is told."""
        self._off()
        self.dropped()
        self._read()

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it; what still lies on a device is told first."""
        self._read()
        return {"has judged": self._has_judged, "turns": self._turns.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._has_judged = bool(state["has judged"])
        self._turns.load_state_dict(state["turns"])
        self._begin()

    def go_on(self, step: int) -> None:
        """Continue at a step, where there is no state."""
        self._turns.go_on(step)
        self._begin()

    def _begin(self) -> None:
        self.dropped()
        self._turn()

    def _turn(self) -> None:
        """Be on for a step that is sampled, and off for others."""
        if not self._turns.watches:
            self._off()
        elif not self._is_on:
            self._is_on = True
            self._modules.watch()
            if self._sampled.conversion is not None:
                self._watching.enter_context(self._sampled.conversion.watched_by(self._gatherer))

    def _off(self) -> None:
        self._is_on = False
        self._modules.leave()
        self._watching.close()

    @torch.no_grad()
    def _gradients(self, facts: StepFacts) -> None:
        if not self._options.gradients:
            return
        before = self._gatherer.own_seconds
        for name, grad in facts.gradients.items():
            if self._gatherer.wants(name):
                local = grad.to_local() if hasattr(grad, "to_local") else grad  # pyright: ignore[reportAttributeAccessIssue]
                true = local if facts.scale == 1.0 else local.float() / facts.scale
                self._gatherer.tensor(name, "gradient", true)
        self._gradient_seconds += self._gatherer.own_seconds - before

    def _end(self, facts: StepFacts, updates: list[Compared]) -> tuple[Finding, ...]:
        was_seen = self._gatherer.operands > 0
        tensors = self._gatherer.take()
        self._read()
        self._waiting = _Unread(facts.step, tensors, updates)
        if all(one.raw.counts.device.type == "cpu" for one in tensors):
            self._read()
        if self._has_judged or not (was_seen or (self._is_on and facts.gradients)):
            return ()
        self._has_judged = True  # what was seen once can be seen: a step without a pass of its own shows nothing either
        if was_seen:
            return ()
        return (unseen(facts.step, passes=self._modules.passes, layers=self._modules.layers),)

    def _read(self) -> None:
        """Bring what lies on a device to the host, and tell it."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        started = time.perf_counter()
        identity: dict[str, Any] = {
            "recipe": self._listeners.recipe,
            "seed": self._listeners.seed,
            "step": waiting.step,
        }
        self._statistics = read_gathered(waiting.tensors, **identity)
        if waiting.updates:
            self._found_updates = read_updates(waiting.updates, **identity)
        self._listeners.hear([*self._statistics, *(self._found_updates if waiting.updates else ())])
        self._reading_seconds += time.perf_counter() - started
