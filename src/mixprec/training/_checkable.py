"""The check of a session: one step watched, before training starts."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..monitor import Fault, locate
from ..monitor.check import Preflight, Setting, run_check
from ..nn import Conversion
from ._resumable import Resumable
from ._scales import DEFAULT, LossScales


class Checkable(Resumable):
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

    def locate(self, step: Callable[[], Tensor]) -> Fault | None:
        """Run one step watched, its loss too, and name the first operation that made what is not finite.

        As `check`, it changes nothing. A skipped step is looked into by itself, and its reason and findings tell the
        fault; this also looks into the loss, which the session does not see computed.

        Args:
            step: runs the forward pass and returns the loss.

        Returns:
            The fault, ``None`` where everything is finite.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from mixprec import prepare
            >>> model = nn.Linear(2, 1)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
            >>> session.locate(lambda: (model(torch.zeros(4, 2)) * 0).log().mean()).site
            '<loss>'
        """
        self._refuse_restored("locate")

        def run_step() -> Tensor:
            loss = step()
            with self._conversion.region():
                loss.backward()  # pyright: ignore[reportUnknownMemberType]
            return loss

        return locate(self.model, run_step, step=self.applied, conversion=self._conversion)
