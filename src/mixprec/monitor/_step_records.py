"""The record of each step of a loop, made in one place and told once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

from ..records import StepRecord
from ._listeners import Listeners

#: What a loss is called that was given no name.
_UNNAMED = "loss"


class StepRecords:
    """Makes a record of each step, with the time since the last one, and tells listeners.

    Args:
        listeners: hear it; with their recipe and seed.
        optimizers: names of all that the loop has.

    Example:
        >>> heard = []
        >>> listeners = Listeners(recipe="bf16", seed=0)
        >>> listeners.add(heard.extend)
        >>> StepRecords(listeners, ["d", "g"]).tell(
        ...     step=0, losses=[("loss", 2.5)], applied=True, grad_norm=1.0, loss_scale=None, optimizers=["d"]
        ... )
        >>> heard[0].loss, heard[0].applied, heard[0].turn, heard[0].losses
        (2.5, True, 'd: loss', {'d': 2.5})
    """

    def __init__(self, listeners: Listeners, optimizers: Iterable[str]) -> None:
        self._listeners, self._last = listeners, time.perf_counter()
        self._has_turns = len(set(optimizers)) > 1

    def restart(self) -> None:
        """The time of the next step begins now."""
        self._last = time.perf_counter()

    def tell(
        self,
        *,
        step: int,
        losses: Sequence[tuple[str, float]],
        applied: bool,
        grad_norm: float | None,
        loss_scale: float | None,
        optimizers: Iterable[str],
        parts: Mapping[str, float] | None = None,
    ) -> None:
        """A step was taken or skipped.

        Args:
            step: applied steps before it; a skipped step shares its number with the next.
            losses: name and value of each loss in it; their sum is told.
            applied: whether weights were updated.
            grad_norm: of all gradients; ``None`` where there were none.
            loss_scale: that it ran under; ``None`` without one.
            optimizers: names of those that took it.
            parts: its losses as they are told apart, where not all optimizers have them all; ``None``: they have.
        """
        has_parts = self._has_turns or _are_named(losses)
        names = sorted(optimizers)
        parts = parts_of(names, losses) if parts is None else parts
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        record = StepRecord(
            recipe=self._listeners.recipe,
            seed=self._listeners.seed,
            step=step,
            loss=sum_of(losses),
            seconds=seconds,
            applied=applied,
            grad_norm=grad_norm,
            loss_scale=loss_scale,
            tokens=None,
            turn=turn_of(names, losses) if has_parts else "",
            losses=dict(parts) if has_parts else {},
        )
        self._listeners.hear([record])


def turn_of(optimizers: Iterable[str], losses: Sequence[tuple[str, float]]) -> str:
    """Which optimizers take a step with which losses.

    Example:
        >>> turn_of(["g", "d"], [("loss", 1.0), ("penalty", 0.1), ("loss", 1.2)])
        'd+g: loss+penalty'
    """
    return f"{'+'.join(sorted(optimizers))}: {'+'.join(sorted({name for name, _ in losses}))}"


def parts_of(optimizers: Iterable[str], losses: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The losses of a step by name, those without one by the optimizers that take it; what comes often is summed.

    Example:
        >>> parts_of(["d"], [("loss", 1.0), ("penalty", 0.1), ("loss", 1.2)])
        {'d': 2.2, 'penalty': 0.1}
    """
    takers = "+".join(sorted(optimizers)) or _UNNAMED
    parts: dict[str, list[tuple[str, float]]] = {}
    for name, loss in losses:
        parts.setdefault(takers if name == _UNNAMED else name, []).append((name, loss))
    return {name: total for name, own in parts.items() if (total := sum_of(own)) is not None}


def _are_named(losses: Sequence[tuple[str, float]]) -> bool:
    return any(name != _UNNAMED for name, _ in losses)


def sum_of(losses: Sequence[tuple[str, float]]) -> float | None:
    """The sum of losses: of those that are finite, or the first that is not; ``None`` where none is known.

    Example:
        >>> sum_of([("d", 0.5), ("g", 1.0)]), sum_of([("d", math.inf), ("g", -math.inf)]), sum_of([])
        (1.5, inf, None)
    """
    bad = [loss for _, loss in losses if not math.isfinite(loss)]
    if bad or not losses:
        return bad[0] if bad else None
    return sum(loss for _, loss in losses)


def least_scale(losses: Sequence[tuple[str, float]], scales: Mapping[str, float]) -> float | None:
    """The smallest scale of the losses in a step; of all, where none of them is known."""
    own = [scales[name] for name, _ in losses if name in scales]
    return min(own or scales.values(), default=None)
