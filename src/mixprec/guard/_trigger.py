"""What a guard may see, and which kind of fault it speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

#: ``"state"``: weights or moments are wrong, whatever the batch; ``"precision"``: the formats; ``"batch"``: this step's
#: batch, until steps in a row say otherwise; ``"scale"``: a loss scale; ``"trend"``: several steps together;
#: ``"told"``: suspicious, and no reason to act.
Kind = Literal["state", "precision", "batch", "scale", "trend", "told"]

#: By name; of several at once the first one here is acted upon.
TRIGGERS: Mapping[str, Kind] = MappingProxyType(
    {
        "weight not finite": "state",
        "moment not finite": "state",
        "weight jump": "state",
        "outlier growth": "state",
        "gradients overflow": "scale",
        "gradients vanish": "scale",
        "loss not finite": "batch",
        "gradient not finite": "batch",
        "precision drift": "precision",
        "noisy operand": "precision",
        "saturated operand": "precision",
        "loss spike": "batch",
        "gradient spike": "batch",
        "loss rise": "trend",
        "skipped in a row": "trend",
        "learning-rate jump": "told",
    }
)

#: Those of steps that a session skips by itself.
NOT_FINITE = frozenset({"loss not finite", "gradient not finite", "gradients overflow", "skipped in a row"})


def _nothing() -> Mapping[str, float | str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """Something that was seen in one step.

    Attributes:
        name: one of ``TRIGGERS``.
        site: module path and role, or a parameter's name; empty where none is known.
        evidence: what was measured, by name.

    Example:
        >>> Trigger(name="loss spike", evidence={"loss": 9.0}).kind
        'batch'
    """

    name: str
    site: str = ""
    evidence: Mapping[str, float | str] = field(default_factory=_nothing)

    @property
    def kind(self) -> Kind:
        """Of fault that it speaks of."""
        return TRIGGERS[self.name]

    def __str__(self) -> str:
        told = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.evidence.items()
        )
        return self.name + f" at {self.site}" * bool(self.site) + f" ({told})" * bool(told)


def in_order(triggers: list[Trigger]) -> list[Trigger]:
    """The gravest first; of one name those that were seen first.

    Example:
        >>> [t.name for t in in_order([Trigger(name="loss spike"), Trigger(name="weight jump")])]
        ['weight jump', 'loss spike']
    """
    order = list(TRIGGERS)
    return sorted(triggers, key=lambda trigger: order.index(trigger.name))
