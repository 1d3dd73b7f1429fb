"""Who watches a session: told of each step, and heard."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter

from ..monitor import (
    Finding,
    Listeners,
    NamedParameters,
    Sampler,
    StepFacts,
    StepWatch,
    StepWatches,
    ToldOnce,
    load_watches_state,
    watches_state,
)
from ._bad_losses import BadLosses
from ._result import Event
from ._verdict import Verdict


class Unwatched:
    """Nobody watches; a loss that is not finite is told all the same.

    Attributes:
        findings: the last 1,000, oldest first.
        located: what went bad first in the last skipped step, and its site; empty where nobody has found it.
    """

    findings: Sequence[Finding] = ()
    located: tuple[str, str] = ("", "")

    def __init__(self) -> None:
        self._bad_losses = BadLosses()

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """A loss is about to be backpropagated."""

    def end_backward(self) -> None:
        """It was."""

    def begin_step(
        self,
        step: int,
        verdict: Verdict,
        gradients: Mapping[str, Mapping[Parameter, Tensor]],
        scale: float,
        loss_scales: Mapping[str, float],
    ) -> None:
        """The gradients of a step have been looked at.

        Args:
            step: applied steps before it.
            verdict: on its gradients.
            gradients: by optimizer.
            scale: what they are multiplied by.
            loss_scales: what each loss was multiplied by.
        """

    def before_update(self) -> None:
        """They are finite."""

    def after_update(self, step: int, verdict: Verdict) -> list[Event]:
        """The weights have changed; what was found."""
        return [_event(finding) for finding in self._bad_losses.look(step, verdict.losses)]

    def skipped(self) -> list[Event]:
        """They are not finite; what was found."""
        return []

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""

    def failed(self, error: BaseException) -> None:
        """A backward pass or a step raised."""

    def close(self) -> None:
        """The session ends."""

    def state_dict(self) -> dict[str, Any]:
        """What those who watch go on with where the session does."""
        return {"losses": self._bad_losses.state()}

    def load_state_dict(self, state: Mapping[str, Any], step: int) -> None:
        """Go on at a step; ``state`` is empty where none was saved."""
        if state:
            self._bad_losses.load(state["losses"])


class Watched(Unwatched):
    """Tells ``watches`` of a session's steps; their findings become events, and are passed on to listeners.

    Args:
        model: whose parameters the facts name.
        watches: by name, in the order in which they are told.
        listeners: hear of findings.
    """

    def __init__(self, model: nn.Module, watches: Mapping[str, StepWatch], listeners: Listeners) -> None:
        super().__init__()
        self._parameters, self._listeners = NamedParameters(model), listeners
        self._named, self._watches = dict(watches), StepWatches(tuple(watches.values()))
        self._facts: StepFacts | None = None
        self._told_once = ToldOnce()

    @property
    def findings(self) -> tuple[Finding, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]  # read only, here
        """The last 1,000, oldest first."""
        return self._listeners.findings

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """A loss is about to be backpropagated."""
        self._watches.begin_backward(loss, name, scale)

    def end_backward(self) -> None:
        """It was."""
        self._watches.end_backward()

    def begin_step(
        self,
        step: int,
        verdict: Verdict,
        gradients: Mapping[str, Mapping[Parameter, Tensor]],
        scale: float,
        loss_scales: Mapping[str, float],
    ) -> None:
        """The gradients of a step have been looked at."""
        names = self._parameters.names([p for group in gradients.values() for p in group])
        self._facts = StepFacts(
            step=step,
            losses=verdict.losses,
            grad_norm=verdict.norm,
            norms={names[p]: norm for group in verdict.norms.values() for p, norm in group.items() if p in names},
            is_finite=verdict.is_finite,
            scale=scale,
            loss_scales=dict(loss_scales),
            gradients={names[p]: grad for group in gradients.values() for p, grad in group.items() if p in names},
            parameters=self._parameters.parameters,
            optimizers=verdict.steps,
        )

    def before_update(self) -> None:
        """The gradients are finite."""
        if self._facts is not None:
            self._watches.before_update(self._facts)

    def after_update(self, step: int, verdict: Verdict) -> list[Event]:
        """The weights have changed; what was found."""
        facts, self._facts = self._facts, None
        if facts is None:
            return []
        found = self._watches.after_update(facts)
        bad = self._bad_losses.look(step, verdict.losses, found)
        if all(math.isfinite(loss) for _, loss in verdict.losses):
            self._told_once.clear(facts)
            return self._tell(found)
        return self._tell([*bad, *self._told_once.new(facts, found)])

    def skipped(self) -> list[Event]:
        """The gradients are not finite; what was found."""
        facts, self._facts = self._facts, None
        if facts is None:
            return []
        found = self._watches.skipped(facts)
        reasons = [(str(f.evidence["reason"]), f.site) for f in found if f.evidence.get("reason")]
        self.located = reasons[0] if reasons else ("", "")
        return self._tell(self._told_once.new(facts, found))

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""
        self._facts = None
        self._watches.dropped()

    def failed(self, error: BaseException) -> None:
        """A backward pass or a step raised."""
        self._facts = None
        self._watches.failed(error)

    def close(self) -> None:
        """The session ends."""
        self._facts = None
        self._watches.close()

    def state_dict(self) -> dict[str, Any]:
        """What those who watch go on with where the session does."""
        watches = watches_state({**self._named, "told": self._told_once})
        return {**super().state_dict(), "watches": watches}

    def load_state_dict(self, state: Mapping[str, Any], step: int) -> None:
        """Go on at a step; ``state`` is empty where none was saved."""
        self._facts = None
        self._watches.dropped()
        for watch in self._named.values():
            if isinstance(watch, Sampler):
                watch.go_on(step)
        super().load_state_dict(state, step)
        load_watches_state({**self._named, "told": self._told_once}, state.get("watches", {}))

    def _tell(self, findings: Sequence[Finding]) -> list[Event]:
        self._listeners.find(findings)
        return [_event(finding) for finding in findings]


def _event(finding: Finding) -> Event:
    # Its step an event tells by itself.
    message = str(finding).removeprefix(f"step {finding.step}: ")
    return Event(step=finding.step, name=finding.name, site=finding.site, message=message)
