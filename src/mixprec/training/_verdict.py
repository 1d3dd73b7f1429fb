"""What the gradients of one step are: finite or not, whose fault it is, how large; the same on all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import Parameter

from ..distributed import Opinion, Ranks
from ..optim import KeptWeights
from ._gradients import measure
from ._scales import DEFAULT, LossScales
from ._windows import Window


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a step is to do.

    Attributes:
        is_finite: whether all gradients are, on all ranks.
        norm: 2-norm of all of them, true.
        norms: of each parameter's gradient, true, by optimizer.
        steps: optimizers that have a gradient on any rank.
        losses: name and value of each loss in the gradients.
        in_flight: names of losses in the gradients on any rank.
        at_fault: names of losses whose part was not finite, on any rank.
    """

    is_finite: bool
    norm: float
    norms: Mapping[str, Mapping[Parameter, float]]
    steps: tuple[str, ...]
    losses: tuple[tuple[str, float], ...]
    in_flight: frozenset[str]
    at_fault: frozenset[str]

    def bad(self, optimizer: str) -> dict[Parameter, float]:
        """Parameters of an optimizer whose gradient is not finite, with the inf or NaN in it."""
        return {p: norm for p, norm in self.norms[optimizer].items() if not math.isfinite(norm)}


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Who is asked about a step.

    Attributes:
        kept: all optimizers of the session.
        windows: what is in their gradients.
        scales: of the losses.
        ranks: that take the step together.
        clips: whether the norm is used.
        plan: what must be the same on all ranks, in words.
    """

    kept: Mapping[str, KeptWeights]
    windows: Mapping[str, Window]
    scales: LossScales
    ranks: Ranks
    clips: bool
    plan: str = ""

    def look(self, name: str) -> None:
        """Before a loss is added to gradients of another one: blame that one, if they are not finite."""
        gradients = self.kept[name].gradients()
        measured = measure(list(gradients.values()), [])
        bad = [p for p, norm in zip(gradients, measured.norms, strict=True) if not math.isfinite(norm)]
        self.windows[name].blame(bad, DEFAULT)

    def verdict(self, gradients: Mapping[str, Mapping[Parameter, Tensor]], scale: float) -> Verdict:
        """Measure the gradients of some optimizers, and agree on them.

        Args:
            gradients: of the optimizers that are to step, by name.
            scale: what their gradients are multiplied by.

        Raises:
            ValueError: gradients that did not come through the session although losses are scaled, on any rank; ranks
                that differ in what must be the same.
        """
        losses = self._losses(gradients)
        flat = [gradient for group in gradients.values() for gradient in group.values()]
        measured = measure(flat, [value for _, value in losses])
        found = iter(measured.norms if scale == 1.0 else [norm / scale for norm in measured.norms])
        norms = {name: dict(zip(group, found, strict=False)) for name, group in gradients.items()}
        if scale != 1.0 or not measured.is_finite:
            for name, group in norms.items():
                self.windows[name].blame([p for p, norm in group.items() if not math.isfinite(norm)], DEFAULT)
        in_flight = frozenset(name for name, _ in losses)
        opinion = Opinion(
            is_finite=measured.is_finite,
            norm=measured.total / scale,
            has_gradients=tuple(bool(gradients.get(name)) for name in self.kept),
            optimizers=tuple(gradients),
            losses=self.scales.names,
            in_flight=in_flight,
            at_fault=frozenset(loss for name in gradients for loss in self.windows[name].at_fault),
            plan=self.plan,
            refusal="" if in_flight or not flat else self._foreign_gradients(),
        )
        agreed = self.ranks.agree(opinion, compares_norms=self.clips)
        return Verdict(
            is_finite=agreed.is_finite,
            norm=agreed.norm,
            norms=norms,
            steps=tuple(name for name, has in zip(self.kept, agreed.has_gradients, strict=True) if has),
            losses=tuple(zip((name for name, _ in losses), measured.losses, strict=True)),
            in_flight=agreed.in_flight or frozenset({DEFAULT}),
            at_fault=agreed.at_fault or agreed.in_flight or frozenset({DEFAULT}),
        )

    def _losses(self, chosen: Iterable[str]) -> list[tuple[str, Tensor]]:
        """What was backpropagated into the gradients; a loss that reached several optimizers once."""
        found = {id(value): (name, value) for key in chosen for name, value in self.windows[key].losses}
        return list(found.values())

    def _foreign_gradients(self) -> str:
        """Why gradients that nobody knows cannot be used; empty where no loss is scaled."""
        scale = next((s for s in map(self.scales.scale, self.scales.names) if s != 1.0), 1.0)
        if scale == 1.0:
            return ""
        return (
            f"step: the gradients did not come through session.backward(loss), which multiplies the loss by "
            f"{scale:g}: replace loss.backward() by session.backward(loss), or call session.step(loss)"
        )
