"""What one batch's pass shows: every product with its gradient, tried in every candidate on the spot."""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...nn import SeenProduct
from ._groups import Grouping
from ._products import Casts, Operands, Parts
from ._seen import Keys, Operation
from ._tap import Tap


@dataclass
class Tally:
    """What a candidate does to one site in one batch; sums of squares but for the projections.

    Attributes:
        projections: of each call: the gradient times the error, summed over a row's features.
        drawn: likewise, with the gradient that was drawn; empty where none was.
        error: of the result.
        gradient_error: of the weight's gradient, of the whole batch.
        gradient_bias: what parts of it have in common.
    """

    projections: list[Tensor] = field(default_factory=lambda: [])
    drawn: list[Tensor] = field(default_factory=lambda: [])
    error: float = 0.0
    gradient_error: float = 0.0
    gradient_bias: float = 0.0

    def add_gradient(self, errors: Tensor, parts: int) -> None:
        """Errors [tried, ...] of the weight's gradients of some of the equal parts of a batch, for all of them.

        Errors of independent parts have in their products with one another, on average, only what does not average out.
        """
        tried, each = errors.shape[0], _square(errors) / errors.shape[0]
        common = each if tried == 1 else (_square(errors.sum(0)) / tried - each) / (tried - 1)
        self.gradient_bias += parts**2 * common
        self.gradient_error += parts**2 * common + parts * (each - common)


@dataclass
class SiteTally:
    """One site in one batch.

    Attributes:
        kind: of it.
        candidates: what each does.
        square: of the result.
        gradient: of the result's gradient, squared.
        weight_gradient: of the weight's gradient, squared.
        weight_noise: variance of the batch's weight gradient, from its parts.
    """

    kind: str
    candidates: dict[str, Tally]
    square: float = 0.0
    gradient: float = 0.0
    weight_gradient: float = 0.0
    weight_noise: float = 0.0


class Collector:
    """A ``ProductWatch`` that taps every product of a pass.

    Args:
        casts: of the candidates, over all batches.
        grouping: of the sites, over all batches.
        keys: of the memory that all batches' operands are.
        known: sites whose weight gradients an earlier batch has shown; ``None``: nobody asks for any.
        seed: of random roundings.

    Attributes:
        anchor: what the backward pass has to run towards.
        sites: what was found, by site, in order of the forward pass.
        grouping: of the sites.
    """

    def __init__(
        self,
        casts: Casts,
        grouping: Grouping,
        keys: Keys,
        known: Collection[str] | None,
        seed: int,
    ) -> None:
        self._casts, self._known, self._seed = casts, known, seed
        self.grouping = grouping
        self._keys, self._calls, self._is_drawing = keys, 0, False
        self._drawn: dict[int, Tensor] = {}
        self.anchor = torch.zeros((), requires_grad=True)
        self.sites: dict[str, SiteTally] = {}

    def product(self, seen: SeenProduct, y: Tensor) -> Tensor:
        """A product of the forward pass."""
        if not torch.is_grad_enabled():
            return y
        operation = Operation.of(seen)
        tallies = {name: Tally() for name in self._casts.precisions}
        self.sites.setdefault(operation.site, SiteTally(operation.kind, tallies))
        shared = [("input", self._keys.key(seen.x))]
        if seen.has_weight:
            shared.append(("weight", self._keys.key(seen.weight)))
        self.grouping.add(operation.site, shared)
        self._calls += 1
        taken = functools.partial(self._take, operation, self._calls)
        made: Tensor = Tap.apply(y, self.anchor, seen.x.detach(), seen.weight.detach(), taken)  # pyright: ignore[reportAssignmentType]
        return made

    @contextmanager
    def drawing(self) -> Generator[None]:
        """The backward pass inside is that of drawn gradients: they are kept until those of the loss come."""
        self._is_drawing = True
        try:
            yield
        finally:
            self._is_drawing = False

    def _take(self, operation: Operation, call: int, g: Tensor, x: Tensor, weight: Tensor) -> None:
        """The gradient of a product's result."""
        if self._is_drawing:
            self._drawn[call] = g.float()
            return
        with torch.no_grad():
            self._measure(operation, g.float(), self._drawn.pop(call, None), x.float(), weight.float())

    def _measure(self, operation: Operation, g: Tensor, drawn: Tensor | None, x: Tensor, weight: Tensor) -> None:
        if g.numel() == 0:  # an expert that no token went to
            return
        site, plain = self.sites[operation.site], self._casts.of("", operation, x.device, self._seed)
        operands = Operands.of(operation, x, weight)
        y = plain.forward(operation, operands)
        features = 1 if operation.operator == "convolution" else -1
        site.square += _square(y)
        site.gradient += _square(g)
        reference, tried = None, None
        if operation.has_weight and self._known is not None and operation.site not in self._known:
            parts = Parts.of(operation, operands, g)
            reference, tried = plain.weight_gradients(operation, operands.weight, parts), parts.some()
            site.weight_gradient += _square(reference.sum(0))
            site.weight_noise += _spread(reference)
        for name, tally in site.candidates.items():
            cast = self._casts.of(name, operation, x.device, self._seed)
            error = cast.forward(operation, operands).sub_(y)
            tally.error += _square(error)
            if drawn is not None:
                tally.drawn.append((error * drawn).sum(features))
            tally.projections.append(error.mul_(g).sum(features))
            if reference is not None and tried is not None:
                errors = cast.weight_gradients(operation, operands.weight, tried)
                tally.add_gradient(errors.sub_(reference[: len(errors)]), len(reference))


def _square(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x)) ** 2


def _spread(parts: Tensor) -> float:
    """The variance of a sum of parts that are draws of one distribution, estimated from the parts."""
    count = parts.shape[0]
    if count < 2:
        return 0.0
    return _square(parts - parts.mean(0)) * count / (count - 1)
