"""Weights of 16 bits that do not move, as one who watches a loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch.nn import Parameter

from ._finding import Finding
from ._step_watch import QuietWatch, StepFacts
from ._updates import UpdateWatch

_REMEDY = "keep fp32 masters of 16-bit weights (recipes 'bf16' and 'fp16' do), or use a larger learning rate"


class StalledWeights(QuietWatch):
    """Tells of 16-bit parameters no element of which moved in 20 applied steps, though they have gradients.

    A ``StepWatch`` around ``UpdateWatch``.

    Args:
        params: 16-bit parameters by name, that the optimizer itself updates.
        idle: gives the identities of parameters whose learning rate is zero.
        window: applied steps compared.
        every: applied steps from one window's start to the next one's.
    """

    def __init__(
        self,
        params: Mapping[str, Parameter],
        idle: Callable[[], Collection[int]],
        *,
        window: int = 20,
        every: int = 1000,
    ) -> None:
        self._watch, self._idle = UpdateWatch(params, window=window, every=every), idle

    def before_update(self, facts: StepFacts) -> None:
        """Remember the weights where a window opens."""
        idle = self._idle()
        moving = (facts.parameters[name] for name, norm in facts.norms.items() if norm > 0)
        self._watch.before_step([p for p in moving if id(p) not in idle])

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """What a window that ends now found."""
        return tuple(
            Finding(
                step=facts.step,
                name="update too small",
                severity="warning",
                site=found.site,
                message=found.message.partition("; use ")[0],
                evidence={"steps": float(self._watch.window)},
                threshold="no element moved",
                remedy=_REMEDY,
            )
            for found in self._watch.after_step()
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps so far, and the window that is open."""
        return self._watch.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._watch.load_state_dict(state)
