"""What a step's time is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Bound = Literal["compute", "bandwidth", "cast", "launch"]


@dataclass(frozen=True, kw_only=True)
class TimeTerm:
    """One part of a step's time.

    Attributes:
        site: module path; ``"<loss>"``, ``"<optimizer>"``, ... as in the inventory.
        operation: ``"fprop"``, ``"dgrad"``, ``"wgrad"``, ``"cast"``, or an operator's name.
        format: what is multiplied or cast to, e.g. ``"mxfp8"``; of other operators the compute dtype.
        engine: of a product ``"native"`` or ``"emulated"`` (no gain in speed), else ``""``.
        seconds: of all its calls in a step.
        bound: what holds it back: the rate of products, the bandwidth, rounding, or the starting of kernels.
        flops: of all calls.
        bytes: read and written, of all calls.
    """

    site: str
    operation: str
    format: str
    engine: str = ""
    seconds: float
    bound: Bound
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Predicted time of one training step on one device.

    Attributes:
        hardware: name of the device.
        terms: in the order of the inventory; they run one after another, so they add up.
        is_validated: whether predictions for this device were compared with measurements on it.
        notes: what was assumed, what is emulated, what is missing.
    """

    hardware: str
    terms: tuple[TimeTerm, ...]
    is_validated: bool
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return sum(term.seconds for term in self.terms)

    def by_site(self) -> Mapping[str, float]:
        """Seconds by site, in order of first appearance."""
        return _summed((term.site, term.seconds) for term in self.terms)

    def by_bound(self) -> Mapping[str, float]:
        """Seconds by what holds the terms back.

        Example:
            >>> term = TimeTerm(site="a", operation="fprop", format="bf16", seconds=2.0, bound="compute")
            >>> StepTime(hardware="h", terms=(term, term), is_validated=False).by_bound()
            {'compute': 4.0}
        """
        return _summed((term.bound, term.seconds) for term in self.terms)


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for name, seconds in pairs:
        totals[name] = totals.get(name, 0.0) + seconds
    return totals
