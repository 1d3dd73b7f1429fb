"""What a plan is chosen from: the inventory, the scores and the memory of a workload at its start."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.planner import (
    KEEP,
    Candidate,
    GroupScores,
    Inventory,
    MemoryForecast,
    Option,
    Scores,
    predict_memory,
    take_inventory,
)
from mixprec.planner.options import (
    Bar,
    bar_activations,
    bar_by_format,
    bar_by_layers,
    bar_by_shape,
    layers_of,
    make_options,
)
from mixprec.planner.plan import compile_rules
from mixprec.specs import Layer, Recipe

from .._user_code import WorkloadError, calling
from ._request import PlanRequest
from ._start import Start

#: Measures what candidates do to the groups of a model: ``planner.measure_scores``.
Scorer = Callable[[nn.Module, Callable[[nn.Module, Any], Tensor], Sequence[Any], Sequence[Candidate]], Scores]
#: Predicts the seconds of a group's products in a step under a candidate.
Timing = Callable[[GroupScores, Candidate], float]


@dataclass(frozen=True, kw_only=True)
class Basis:
    """All that a plan is chosen from.

    Attributes:
        layers: that rules can be about, by site.
        inventory: of a step.
        scores: of every group.
        kept: memory with everything in the compute dtype.
        options: of every group and candidate.
    """

    layers: Mapping[str, Layer]
    inventory: Inventory
    scores: Scores
    kept: MemoryForecast
    options: tuple[Option, ...]


def measure(request: PlanRequest, start: Start, scorer: Scorer, timing: Callable[[Inventory], Timing]) -> Basis:
    """Trace one step, measure every candidate on a few batches, and predict what each would take.

    Raises:
        WorkloadError: a function of the workload that fails, or a loss that is not finite.
        ValueError: a workload without a product to choose for, or targets that do nothing.
    """
    workload = start.workload
    batches = [workload.batches(step) for step in range(request.batches)]
    with calling("a traced step", start.file):
        inventory = take_inventory(workload.model, workload.loss, batches[0], optimizer=workload.optimizer)
    layers = layers_of(workload.model, inventory)
    with calling("measuring candidates", start.file):
        scores = scorer(workload.model, workload.loss, batches, request.candidates)
    if not math.isfinite(scores.loss):
        raise WorkloadError(
            f"{request.source.name}: the loss is {scores.loss} after {start.steps} steps: a plan is measured where "
            "training goes well; give it a finite loss, or another --steps or --from"
        )
    names = [KEEP, *(candidate.name for candidate in request.candidates)]
    sizes, refused = _memory(request, start, batches[0], layers, scores)
    hardware = request.hardware
    bars: list[Bar] = [
        bar_activations,
        bar_by_layers(request.layer_targets, layers, names),
        bar_by_format(hardware.name, lambda name: request.emulated or hardware.rate_of(name) is not None),
        bar_by_shape(inventory),
        lambda group, candidate: refused.get((group.name, candidate.name), ""),
    ]
    price = hardware.price_per_hour
    options = make_options(
        scores,
        request.candidates,
        seconds=timing(inventory),
        size=lambda group, candidate: _saved(sizes.get(candidate.name, sizes[KEEP]), group),
        price_per_second=0.0 if price is None else price / 3600,
        bars=bars,
    )
    return Basis(layers=layers, inventory=inventory, scores=scores, kept=sizes[KEEP], options=options)


def recipe_of(base: Recipe, layers: Mapping[str, Layer], sites: Sequence[str], candidate: Candidate) -> Recipe:
    """The base recipe with a candidate's casts at some sites, and nothing cast elsewhere."""
    rules = compile_rules(layers, dict.fromkeys(sites, candidate.precision))
    return replace(base, name=candidate.name, rules=rules, phases=())


def _memory(
    request: PlanRequest, start: Start, batch: Any, layers: Mapping[str, Layer], scores: Scores
) -> tuple[dict[str, MemoryForecast], dict[tuple[str, str], str]]:
    """What a step keeps under every candidate, where all groups that can have it do; and why others cannot."""
    workload, forecasts, refused = start.workload, dict[str, MemoryForecast](), dict[tuple[str, str], str]()
    for candidate in (Candidate(name=KEEP), *request.candidates):
        sites: list[str] = []
        for group in scores.groups:
            why = _refusal(request.base, start, layers, group, candidate)
            if why:
                refused[group.name, candidate.name] = why
            else:
                sites += group.sites
        recipe = recipe_of(request.base, layers, sites, candidate)
        with calling(f"a traced step under {candidate.name}", start.file):
            forecasts[candidate.name] = predict_memory(
                workload.model, workload.loss, batch, recipe, optimizer=workload.optimizer
            )
    return forecasts, refused


def _refusal(base: Recipe, start: Start, layers: Mapping[str, Layer], group: GroupScores, candidate: Candidate) -> str:
    """Why a model cannot be converted with a candidate for one group; empty where it can."""
    if candidate.precision is None:
        return ""
    model = copy.deepcopy(start.workload.model).to("meta")
    try:
        convert(model, recipe_of(base, layers, group.sites, candidate))
    except ValueError as error:
        return f"cannot be converted: {error}"
    return ""


def _saved(forecast: MemoryForecast, group: GroupScores) -> int:
    """What modules of a group save first; what they share with an earlier one is told there."""
    return sum(forecast.saved.get(site, 0) for site in group.sites)
