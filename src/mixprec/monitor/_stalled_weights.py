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

    A ``StepWatch`` around an ``UpdateWatch`` for each optimizer, which counts its own steps.

    Args:
        params: by the optimizer's name: its 16-bit parameters by name, that it itself updates.
        idle: gives the identities of parameters whose learning rate is zero.
        window: applied steps compared.
        every: applied steps from one window's start to the next one's.
    """

    def __init__(
        self,
        params: Mapping[str, Mapping[str, Parameter]],
        idle: Callable[[], Collection[int]],
        *,
        window: int = 20,
        every: int = 1000,
    ) -> None:
        self._watches = {name: UpdateWatch(own, window=window, every=every) for name, own in params.items() if own}
        self._idle, self._window = idle, window

    def before_update(self, facts: StepFacts) -> None:
        """Remember the weights where a window opens."""
        stepping = [self._watches[name] for name in facts.optimizers if name in self._watches]
        if not stepping:
            return
        idle = self._idle()
        moving = [facts.parameters[name] for name, norm in facts.norms.items() if norm > 0]
        for watch in stepping:
            watch.before_step([p for p in moving if id(p) not in idle])

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """What a window that ends now found."""
        stepped = [self._watches[name] for name in facts.optimizers if name in self._watches]
        return tuple(
            Finding(
                step=facts.step,
                name="update too small",
                severity="warning",
                site=found.site,
                message=found.message.partition("; use ")[0],
                evidence={"steps": float(self._window)},
                threshold="no element moved",
                remedy=_REMEDY,
            )
            for watch in stepped
            for found in watch.after_step()
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps so far, and the windows that are open, by the optimizer's name."""
        return {name: watch.state_dict() for name, watch in self._watches.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        for name in state.keys() & self._watches.keys():
            self._watches[name].load_state_dict(state[name])
