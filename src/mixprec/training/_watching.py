"""Who watches a session: told of each step, and heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn import Parameter

from ..monitor import Finding, Listeners, StepFacts, StepWatch, StepWatches
from ._result import Event
from ._verdict import Verdict


class Unwatched:
    """Nobody watches.

    Attributes:
        findings: the last 1,000, oldest first.
        located: what went bad first in the last skipped step, and its site; empty where nobody has found it.
    """

    findings: Sequence[Finding] = ()
    located: tuple[str, str] = ("", "")

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

    def after_update(self) -> list[Event]:
        """The weights have changed; what was found."""
        return []

    def skipped(self) -> list[Event]:
        """They are not finite; what was found."""
        return []

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""

    def failed(self, error: BaseException) -> None:
        """A backward pass or a step raised."""

    def close(self) -> None:
        """The session ends."""


class Watched(Unwatched):
    """Tells ``watches`` of a session's steps; their findings become events, and are passed on to listeners.

    Args:
        model: whose parameters the facts name.
        watches: in the order in which they are told.
        listeners: hear of findings.
    """

    def __init__(self, model: nn.Module, watches: Sequence[StepWatch], listeners: Listeners) -> None:
        self._model, self._watches, self._listeners = model, StepWatches(watches), listeners
        self._facts: StepFacts | None = None
        self._in_a_row = set[tuple[str, str]]()  # what was found of the steps that were skipped since one was applied

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
        parameters = dict(self._model.named_parameters())
        names = {p: name for name, p in parameters.items()}
        self._facts = StepFacts(
            step=step,
            losses=verdict.losses,
            grad_norm=verdict.norm,
            norms={names[p]: norm for group in verdict.norms.values() for p, norm in group.items() if p in names},
            is_finite=verdict.is_finite,
            scale=scale,
            loss_scales=dict(loss_scales),
            gradients={names[p]: grad for group in gradients.values() for p, grad in group.items() if p in names},
            parameters=parameters,
        )

    def before_update(self) -> None:
        """The gradients are finite."""
        if self._facts is not None:
            self._watches.before_update(self._facts)

    def after_update(self) -> list[Event]:
        """The weights have changed; what was found."""
        self._in_a_row.clear()
        facts, self._facts = self._facts, None
        return [] if facts is None else self._told(self._watches.after_update(facts))

    def skipped(self) -> list[Event]:
        """The gradients are not finite; what was found."""
        facts, self._facts = self._facts, None
        found = () if facts is None else self._watches.skipped(facts)
        reasons = [(str(f.evidence["reason"]), f.site) for f in found if f.evidence.get("reason")]
        self.located = reasons[0] if reasons else ("", "")
        new = [f for f in found if (f.name, f.site) not in self._in_a_row]  # one event is told once
        self._in_a_row |= {(f.name, f.site) for f in found}
        return self._told(new)

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

    def _told(self, findings: Sequence[Finding]) -> list[Event]:
        self._listeners.find(findings)
        return [Event(step=f.step, name=f.name, site=f.site, message=_sentence(f)) for f in findings]


def _sentence(finding: Finding) -> str:
    return str(finding).removeprefix(f"step {finding.step}: ")  # which an event tells by itself
