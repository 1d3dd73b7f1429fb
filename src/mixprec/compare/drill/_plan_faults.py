"""Which faults a drill can plant into a workload, and where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from mixprec.formats import unknown_name
from mixprec.specs import Recipe
from mixprec.training import prepare

from .._random_state import own_random_state
from .._workload import Workload
from ..planning import start_after
from ._drilled import Drill
from ._fault import Fault, Place
from ._faults import FAULTS
from ._precision import SiteFault
from ._rehearse import looks_every
from ._worst_site import worst_site


@dataclass(frozen=True, kw_only=True)
class PlannedFaults:
    """Faults that can be planted.

    Attributes:
        planted: by the fault's word: makes the fault of a seed; each run needs one of its own.
        sites: for faults of one site: that site.
        left_out: faults that cannot be planted, and why.
    """

    planted: Mapping[str, Callable[[int], Fault]]
    sites: Mapping[str, str]
    left_out: Mapping[str, str]


def plan_faults(drill: Drill, workload: Workload, recipe: Recipe) -> PlannedFaults:
    """Try each fault on a throw-away model, and choose the sites by measurement.

    The sites are measured at the weights that the workload has where the faults begin.

    Raises:
        ValueError: an unknown fault; one that was asked for and cannot be planted, and why.
        WorkloadError: the workload does not train that far.
    """
    names = drill.faults or tuple(FAULTS)
    for name in names:
        if name not in FAULTS:
            raise unknown_name("fault", name, list(FAULTS))
    at = begins_at(workload.steps)
    sites = _sites(drill, names, recipe, at)
    planted: dict[str, Callable[[int], Fault]] = {}
    left_out: dict[str, str] = {}
    for name in names:
        place = Place(at=at, seed=0, total_steps=workload.steps, site=sites.get(name, ""))
        reason = _refusal(FAULTS[name], place, workload, recipe)
        if not reason:
            planted[name] = _maker(FAULTS[name], place)
        elif drill.faults:
            raise ValueError(f"fault {name} cannot be planted: {reason}")
        else:
            left_out[name] = reason
    return PlannedFaults(planted=planted, sites={n: s for n, s in sites.items() if s}, left_out=left_out)


def begins_at(steps: int) -> int:
    """The step of a run at which faults begin: after two fifths, halfway from one sample to the next.

    Example:
        >>> begins_at(200)
        85
    """
    return steps * 2 // 5 + looks_every(steps) // 2


def _maker(kind: type[Fault], place: Place) -> Callable[[int], Fault]:
    def made(seed: int) -> Fault:
        return kind.planted(Place(at=place.at, seed=seed, total_steps=place.total_steps, site=place.site))

    return made


def _sites(drill: Drill, names: tuple[str, ...], recipe: Recipe, at: int) -> dict[str, str]:
    kinds = {name: kind for name in names if issubclass(kind := FAULTS[name], SiteFault)}
    if not kinds:
        return {}
    seed = drill.seeds[0]
    start = start_after(drill.source, recipe, steps=at, seed=seed, device=drill.device)
    return {name: worst_site(kind, start.workload, recipe, seed) for name, kind in kinds.items()}


def _refusal(kind: type[Fault], place: Place, workload: Workload, recipe: Recipe) -> str:
    if issubclass(kind, SiteFault) and not place.site:
        return "no layer of the model can be narrowed"
    fault = kind.planted(place)
    try:
        planted = fault.recipe(recipe)
    except ValueError as error:
        return str(error)
    device = next(workload.model.parameters()).device
    with own_random_state(device):
        torch.manual_seed(0)
        model = copy.deepcopy(workload.model).train()
        optimizer = workload.optimizer(model.parameters())
        session = prepare(model, optimizer, planted, clip_norm=workload.clip_norm, total_steps=workload.steps)
        batch = workload.batches(0)
        session.step(workload.loss(model, batch))
        reason = fault.refusal(session, batch)
        session.restore()
    return reason
