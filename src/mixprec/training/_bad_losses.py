"""Losses that are not finite in steps that are applied, for all gradients are: such a step is never silent."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence

from ..monitor import Finding
from ._scales import DEFAULT

#: What an alarm calls it too.
LOSS_NOT_FINITE = "loss not finite"
_REMEDY = "look into the loss (session.locate names the first operation that makes it), and leave such batches out"


class BadLosses:
    """Tells of each loss once, until it has been finite again.

    Example:
        >>> losses = BadLosses()
        >>> values = (1.0, math.inf, math.inf, 1.0, math.nan)
        >>> [len(losses.look(step, [("loss", value)])) for step, value in enumerate(values)]
        [0, 1, 0, 0, 1]
    """

    def __init__(self) -> None:
        self._told = set[str]()

    def look(self, step: int, losses: Sequence[tuple[str, float]], found: Collection[Finding] = ()) -> list[Finding]:
        """Findings of an applied step.

        Args:
            step: applied steps before it.
            losses: name and value of each.
            found: what watches have found of it: where an alarm tells the same, it is told.
        """
        bad = {name: value for name, value in losses if not math.isfinite(value)}
        new = [name for name in bad if name not in self._told]
        self._told = (self._told - {name for name, _ in losses}) | bad.keys()
        if not new or any(finding.name == LOSS_NOT_FINITE for finding in found):
            return []
        return [_finding(step, name, bad[name]) for name in new]

    def state(self) -> str:
        """Names of losses that were told, as JSON."""
        return json.dumps(sorted(self._told))

    def load(self, state: str) -> None:
        """Continue from a ``state()``."""
        self._told = set(json.loads(state))


def _finding(step: int, name: str, value: float) -> Finding:
    kind = "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return Finding(
        step=step,
        name=LOSS_NOT_FINITE,
        severity="fault",
        message=f"{_called(name)} is {kind}, and all gradients are finite: the step was applied",
        evidence={"loss": value},
        threshold="finite",
        remedy=_REMEDY,
    )


def _called(name: str) -> str:
    return "the loss" if name == DEFAULT else f"the loss '{name}'"
