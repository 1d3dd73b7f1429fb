"""What targets come down to for a search: largest sums over the groups."""

from __future__ import annotations

from dataclasses import dataclass

from mixprec.planner import KEEP

from ._measure import Basis
from ._request import PlanRequest


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What a step takes beside what the choice decides.

    Attributes:
        seconds: of the rest of a step, predicted for the hardware.
        steps: of the run, that its cost is counted for.
    """

    seconds: float
    steps: int


def limits_of(request: PlanRequest, basis: Basis, rest: Rest) -> dict[str, float]:
    """The largest loss change, seconds, bytes and cost of the groups that keep the targets.

    Raises:
        ValueError: targets that leave nothing to decide by, or a cost without a price.
    """
    kept = [option for option in basis.options if option.candidate == KEEP]
    seconds = rest.seconds + sum(option.seconds for option in kept)
    fixed = basis.kept.peak - sum(option.bytes for option in kept)
    targets = request.targets
    limits: dict[str, list[float]] = {"loss": [], "seconds": [], "bytes": [], "cost": []}
    if (budget := request.budget(basis.scores.loss)) is not None:
        limits["loss"].append(budget)
    if targets.latency.ratio is not None:
        limits["seconds"].append(targets.latency.ratio * seconds - rest.seconds)
    if targets.latency.milliseconds is not None:
        limits["seconds"].append(targets.latency.milliseconds / 1e3 - rest.seconds)
    if targets.memory.bytes is not None:
        limits["bytes"].append(targets.memory.bytes - fixed)
    if targets.memory.share is not None:
        limits["bytes"].append(targets.memory.share * basis.kept.peak - fixed)
    if targets.cost is not None:
        limits["cost"].append(_largest_cost(request, targets.cost.largest, rest))
    found = {name: min(values) for name, values in limits.items() if values}
    _check(request, found, rest, fixed)
    return found


def _largest_cost(request: PlanRequest, largest: float, rest: Rest) -> float:
    price = request.hardware.price_per_hour
    if price is None:
        raise ValueError(
            f"targets have a cost and {request.hardware.name} has no price: give its price per hour with --price"
        )
    return largest / rest.steps - rest.seconds * price / 3600


def _check(request: PlanRequest, limits: dict[str, float], rest: Rest, fixed: int) -> None:
    if not limits or (set(limits) == {request.minimise}):
        raise ValueError(
            f"a plan with the least {request.minimise} needs a budget of something else: give --loss-budget or "
            "[quality] loss in the targets, or minimise loss under a latency or memory target"
        )
    beside = {"seconds": f"{rest.seconds * 1e3:.4g} ms of a step", "bytes": f"{fixed:,} bytes of the peak"}
    for name, most in limits.items():
        if most < 0:
            part = beside.get(name, "the rest of a step alone")
            raise ValueError(
                f"the target of {name} is impossible: {part} are not for the choice of formats to decide, which is "
                f"{-most:.4g} {name} more than the target leaves"
            )
