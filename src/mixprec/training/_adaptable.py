"""The part of a session that changes the precision of a run on its way, and measures what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..optim import KeptWeights
from ._checkable import Checkable
from ._full_values import FullValues
from ._phases import PhaseKeeper
from ._result import Event
from ._scales import DEFAULT
from ._shadow import Loss, Shadow, Shadowed, measure_shadow


class Adaptable(Checkable):
    """``Session`` is made of it."""

    _kept: Mapping[str, KeptWeights]
    _phases: PhaseKeeper
    _values: FullValues

    def widen(self, sites: str | Iterable[str], to: str | None = None) -> tuple[Event, ...]:
        """Give some sites wider casts from the next step on, in later phases too; everything else is carried over.

        Weights, moments, loss scales and the histories of operands whose cast stays go on; ``audit`` measures the next
        step anew. The session's state remembers it, so that a resumed run is as wide.

        Args:
            sites: as findings and the audit name them, a module's path, with the role where one alone is meant:
                ``"blocks.3.mlp.fc2 (grad_output)"``. In a product whose operands are transformed both are widened.
            to: ``"fp8"``, ``"bf16"`` or ``"compute"``, the recipe's compute dtype; ``None``: the next of these.

        Returns:
            What changed at which site, from what to what; and where nothing could change, why.

        Raises:
            ValueError: an unknown site or width.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from mixprec import prepare
            >>> model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "mxfp4")
            >>> print(session.widen("0 (weight)")[0].message)
            0: fprop weight, dgrad weight mxfp4 -> mxfp8 rceil
        """
        self._refuse_unusable("widen")
        asked = [sites] if isinstance(sites, str) else list(sites)
        told = self._phases.widen(asked, to, self.applied)
        events = tuple(Event(step=self.applied, name=name, site=site, message=text) for name, site, text in told)
        self._tell(events)
        return events

    def shadow(self, loss: Loss, batch: Any, *, backward: bool = False) -> Shadow:
        """Run one batch in the recipe and in fp32 from the same weights, and tell what the precision alone costs now.

        Both start from the same random states. Nothing is changed: weights, gradients, buffers, random states, offsets
        and histories are as before. It takes two forward passes (with ``backward`` two backward passes too) and, while
        it runs, a copy of the model in fp32; the result tells both. A phase that waits for ``"noise"`` begins with a
        measurement whose gradient is less than sqrt(3) times its rounding noise.

        Args:
            loss: ``loss(model, batch)`` runs the forward pass of the model that it is given and returns the loss.
            batch: of which it is told.
            backward: whether gradients are compared too.

        Raises:
            TypeError: ``loss`` gives no tensor.
            ValueError: a sharded model; with ``backward``, a loss that is not one number with a graph.

        Source: Chmiel et al., FP4 All the Way, arXiv:2505.19115, for the ratio and its limit.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from mixprec import prepare
            >>> model = nn.Linear(32, 4)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
            >>> session.shadow(lambda m, x: m(x).square().mean(), torch.ones(2, 32), backward=True).gap
            0.0
        """
        self._refuse_unusable("shadow")
        self._values.see()
        shadowed = Shadowed(
            model=self.model,
            conversion=self._conversion,
            value=self._values.of,
            scale=self._scales.scale(DEFAULT),
            step=self.applied,
        )
        shadow = measure_shadow(shadowed, loss, batch, backward=backward)
        self._guard.hear_gap(shadow.gap, shadow.baseline)
        if shadow.drowns:
            begun = self._phases.signal("noise", self.applied)
            self._tell([Event(step=self.applied, name="phase", message=message) for message in begun])
        return shadow
