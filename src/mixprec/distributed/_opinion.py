"""What is said of one step: by one rank, or by all together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What one rank found in a step; or what all ranks agreed on.

    Attributes:
        is_finite: whether every gradient is finite.
        norm: 2-norm of the gradients; of no meaning where they are not finite.
        has_gradients: of each optimizer of the session, in order, whether it takes part in this step with a gradient.
        optimizers: names of the optimizers that are asked to step.
        losses: names of all losses that the session knows, in order.
        in_flight: those whose gradients are in this step.
        at_fault: those whose contribution was not finite.
        plan: what the weights depend on beside the gradients, and what must be the same on all ranks.
        refusal: why this rank cannot take the step; empty when it can.
    """

    is_finite: bool
    norm: float
    has_gradients: tuple[bool, ...]
    optimizers: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    in_flight: frozenset[str] = frozenset()
    at_fault: frozenset[str] = frozenset()
    plan: str = ""
    refusal: str = ""
