"""Why a plan gives nothing: what low precision would have taken, and from what width it would gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mixprec.planner import KEEP, Candidate, Choice, GroupScores, Inventory, Product

from ._measure import Basis, Timing

#: Times as wide that are tried, in turn.
_WIDER = tuple(2**power for power in range(1, 11))


def why_all_kept(
    choice: Choice,
    basis: Basis,
    candidates: Sequence[Candidate],
    timing: Callable[[Inventory], Timing],
    hardware: str,
) -> str:
    """One sentence where every group keeps the compute dtype because nothing is faster; else empty.

    Args:
        choice: of all groups.
        basis: that it was chosen from.
        candidates: beside "keep".
        timing: predicts seconds of a group, from an inventory.
        hardware: what to call it.
    """
    if set(choice.candidates.values()) != {KEEP}:
        return ""
    allowed = [option for option in basis.options if option.allowed and option.candidate != KEEP]
    kept = {option.group: option.seconds for option in basis.options if option.candidate == KEEP}
    if not allowed or any(option.seconds < kept[option.group] for option in allowed):
        return ""
    named = {candidate.name: candidate for candidate in candidates}
    may: dict[str, list[Candidate]] = {}
    for option in allowed:
        may.setdefault(option.group, []).append(named[option.candidate])
    groups = [group for group in basis.scores.groups if group.name in may]
    cast, wide = _seconds(groups, may, timing(basis.inventory))
    return (
        f"everything is kept since nothing is faster: the cheapest low precision in {len(groups)} groups would take "
        f"{cast * 1e3:.3g} ms of products and casts a step on {hardware} where keep takes {wide * 1e3:.3g} ms "
        f"({cast / wide:.3g} times), as the casts cost more than the rates save at this size; "
        f"{_from_what_width(groups, may, timing, basis.inventory)}"
    )


def widened(inventory: Inventory, times: int) -> Inventory:
    """The products of a model whose layers have so many times the features, over the same tokens."""
    return replace(inventory, products=tuple(_widened(product, times) for product in inventory.products))


def _from_what_width(
    groups: Sequence[GroupScores],
    may: Mapping[str, Sequence[Candidate]],
    timing: Callable[[Inventory], Timing],
    inventory: Inventory,
) -> str:
    sites = {site for group in groups for site in group.sites}
    forward = [product for product in inventory.products if product.gemm == "fprop" and product.site in sites]
    for times in _WIDER:
        cast, wide = _seconds(groups, may, timing(widened(inventory, times)))
        if cast < wide:
            largest = max(forward, key=lambda product: product.flops)
            return (
                f"from {times} times the width it would pay ({largest.k * times:,} features into {largest.site}, which "
                f"has {largest.k:,})"
            )
    return f"it would not pay at {_WIDER[-1]:,} times the width either"


def _seconds(
    groups: Sequence[GroupScores], may: Mapping[str, Sequence[Candidate]], timing: Timing
) -> tuple[float, float]:
    """Of all groups, each with the fastest that it may have beside "keep"; and of all kept."""
    cast = sum(min(timing(group, candidate) for candidate in may[group.name]) for group in groups)
    return cast, sum(timing(group, Candidate(name=KEEP)) for group in groups)


def _widened(product: Product, times: int) -> Product:
    if product.gemm == "wgrad":  # reduced over the tokens
        return replace(product, m=product.m * times, n=product.n * times)
    return replace(product, n=product.n * times, k=product.k * times)
