"""The time of a training step on a device, before it runs there."""

from __future__ import annotations

from collections.abc import Mapping

from ...hardware import Hardware
from ...specs import Layer, Recipe
from .._candidate import Candidate
from .._inventory import Inventory
from .._scores import GroupScores
from ._assignment import Assignment, assignment_of
from ._device_clock import DeviceClock
from ._machine_clock import MachineClock
from ._site import sites_of
from ._terms import StepTime, TimeTerm


def estimate_time(
    inventory: Inventory,
    recipe: Recipe | Assignment,
    hardware: Hardware,
    *,
    layers: Mapping[str, Layer] | None = None,
) -> StepTime:
    """Predict the time of one training step, term by term.

    On a device of the catalog a term takes as long as its slowest part: its FLOPs at the attainable rate of the format
    that its products run in, its bytes at the attainable bandwidth, or the starting of its kernels. A format that the
    device does not multiply is emulated: it runs at the rate of the compute dtype, pays its casts, and gains nothing.
    On a machine that ``mixprec calibrate`` measured, seconds come from what was measured there.

    Terms run one after another; nothing overlaps.

    Args:
        inventory: of the step, from ``take_inventory``.
        recipe: what the step is to run under, or the precision of each site.
        hardware: where.
        layers: sites as the recipe's rules see them; by default as paths tell.

    Raises:
        ValueError: a figure that the prediction needs is missing.

    Example:
        >>> from mixprec.hardware import find
        >>> from mixprec.planner import Product
        >>> from mixprec.specs import recipe
        >>> product = Product(site="fc", kind="Linear", gemm="fprop", m=8192, n=8192, k=8192)
        >>> inventory = Inventory(products=(product,), traffic=(), parameters=())
        >>> time = estimate_time(inventory, recipe("bf16"), find("h100-sxm"))
        >>> [(term.bound, f"{term.seconds * 1e3:.2f} ms") for term in time.terms]
        [('compute', '1.39 ms')]
        >>> time.is_validated
        False
    """
    assignment = assignment_of(inventory, recipe, layers)
    sites = sites_of(inventory.products)
    clock = _clock_of(hardware, assignment.compute_dtype)
    terms: list[TimeTerm] = []
    for name, site in sites.items():
        terms += clock.site(name, site, assignment.precisions.get(name))
    terms += [clock.traffic(traffic) for traffic in inventory.traffic]
    notes = (*inventory.notes, *clock.notes())
    if not hardware.is_validated:
        notes = (f"not validated: no prediction was compared with a measurement on {hardware.name}", *notes)
    return StepTime(hardware=hardware.name, terms=tuple(terms), is_validated=hardware.is_validated, notes=notes)


def seconds_of(
    group: GroupScores, candidate: Candidate, hardware: Hardware, inventory: Inventory, *, compute_dtype: str = "fp32"
) -> float:
    """Predicted seconds of the products and casts of a group of sites under a candidate: what a search minimises.

    Args:
        group: sites that decide together.
        candidate: what they are given.
        hardware: where.
        inventory: of the step.
        compute_dtype: what "keep" leaves them in.
    """
    clock, names = _clock_of(hardware, compute_dtype), set(group.sites)
    sites = sites_of(product for product in inventory.products if product.site in names)
    terms = [clock.site(name, site, candidate.precision) for name, site in sites.items()]
    return sum(term.seconds for site in terms for term in site)


def _clock_of(hardware: Hardware, compute: str) -> DeviceClock | MachineClock:
    return DeviceClock(hardware, compute) if hardware.measured is None else MachineClock(hardware, compute)
