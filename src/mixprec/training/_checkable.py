"""The check of a session: one step watched, before training starts."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..monitor.check import Preflight, Setting, run_check
from ..nn import Conversion
from ._locating import Locating
from ._scales import DEFAULT, LossScales


class Checkable(Locating):
    """The part of a session that looks before it trains; ``Session`` is made of it."""

    clip_norm: float | None
    _conversion: Conversion
    _scales: LossScales

    def check(self, step: Callable[[], Tensor], *, name: str = DEFAULT) -> Preflight:
        """Run one step watched and tell what will go wrong in this recipe, with site, evidence and remedy.

        Forward, loss and backward through the loss's scale; no update. Nothing is changed: weights, buffers, random
        states, random offsets of casts, histories, gradients and the loss scale are as before. Call it between steps.
        (What ``step`` itself takes from outside, a batch of an iterator, is taken.)

        Args:
            step: runs the forward pass and returns the loss: one number with a graph.
            name: of the loss, where losses have scales of their own.

        Returns:
            The findings, the faults first; ``print`` them.

        Raises:
            TypeError: ``step`` is no function, or returns no tensor.
            ValueError: a loss that is not one number with a graph; the session was restored.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from mixprec import prepare
            >>> model = nn.Linear(2, 1)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
            >>> print(session.check(lambda: model(torch.ones(4, 2)).square().mean()))
            check of recipe bf16: nothing was found in one step of ... operations
        """
        self._refuse_restored("check")
        known = self._scales.names
        scale, spec = self._scales.scale(name), self._scales.spec(name)
        self._scales.forget_new(known)  # a check makes no loss known
        setting = Setting(
            model=self.model,
            optimizers=tuple(self.optimizers.values()),
            conversion=self._conversion,
            loss_scale=scale,
            is_dynamic=spec.kind == "dynamic",
            clip_norm=self.clip_norm,
            rounds_weights=self._conversion.recipe.weights == "true",
            step=self.applied,
        )
        return run_check(setting, step)
