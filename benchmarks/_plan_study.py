"""What plans lose beside what else people do at equal average bits: the study behind docs/plan.md."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixprec.compare import WorkloadSource
from mixprec.compare.planning import Start, loss_under, start_after
from mixprec.compare.workloads import gpt, resnet
from mixprec.planner import KEEP, Candidate, Inventory, Option, Scores, measure_scores, search, take_inventory
from mixprec.planner.options import layers_of
from mixprec.planner.plan import compile_rules
from mixprec.specs import Layer, LayerPrecision, Recipe, recipe

#: Candidates of a study by name: the cast of every operand, and its bits per element with its share of the scales.
CASTS: Mapping[str, tuple[str, float]] = {
    "mxfp8": ("mxfp8 rceil", 8.25),
    "mxfp6": ("mxfp6-e3m2", 6.25),
    "mxfp4": ("mxfp4", 4.25),
    "e2m1": ("e2m1[tensor]", 4.0),
}
#: Of a layer that keeps the compute dtype, were it bf16.
WIDE = 16.0
#: What is compared: the way to choose that sets the average bits, and the candidates beside "keep".
STUDIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "first and last blocks wide, else MXFP4": ("blocks", ("mxfp4",)),
    "first and last blocks wide, else per-tensor E2M1": ("blocks", ("e2m1",)),
    "first and last blocks and head wide, else MXFP4": ("blocks and head", ("mxfp4",)),
    "MXFP6 everywhere": ("uniform", ("mxfp4", "mxfp6", "mxfp8")),
}
UNIFORM = "mxfp6"
#: What a plan may give that is not bound to the formats of the study.
MIXED = ("mxfp4", "mxfp6", "mxfp8")


@dataclass(frozen=True)
class Measured:
    """A trained model, and what is known of its layers."""

    start: Start
    layers: Mapping[str, Layer]
    scores: Scores
    shares: Mapping[str, float]
    seed: int

    @property
    def groups(self) -> list[str]:
        """The groups that are chosen for: not the products of activations, which stay as they are."""
        return [g.name for g in self.scores.groups if not set(g.kinds) & {"qk", "pv", "matmul"}]


def source_of(name: str, layers: int, steps: int) -> WorkloadSource:
    """The workload ``gpt`` with so many layers, or ``resnet``."""
    if name == "resnet":
        return WorkloadSource(name=name, function=functools.partial(resnet.workload, steps=steps))
    config = gpt.GPTConfig(layers=layers)
    return WorkloadSource(name=name, function=functools.partial(gpt.workload, steps=steps, config=config))


def measure(source: WorkloadSource, steps: int, seed: int, batches: int = 2) -> Measured:
    """Train, and score every layer."""
    start = start_after(source, recipe("fp32"), steps=steps, seed=seed, device="cpu")
    workload = start.workload
    inventory = take_inventory(workload.model, workload.loss, workload.batches(0))
    candidates = [Candidate(name=name, precision=LayerPrecision.uniform(cast)) for name, (cast, _) in CASTS.items()]
    data = [workload.batches(step) for step in range(batches)]
    scores = measure_scores(workload.model, workload.loss, data, candidates)
    return Measured(start, layers_of(workload.model, inventory), scores, _shares(inventory, scores), seed)


def changes(measured: Measured, study: str) -> dict[str, dict[str, float]]:
    """The held-out loss change of one quantization by each way to choose, with its average bits."""
    peer, candidates = STUDIES[study]
    chosen = {peer: _structural(measured, peer, candidates[0])}
    budget = _bits(measured, chosen[peer])
    chosen["output error"] = _searched(measured, candidates, budget, by_error=True)
    chosen["plan"] = _searched(measured, candidates, budget)
    if candidates != MIXED:
        chosen["plan, MXFP too"] = _searched(
            measured, (*candidates, *(c for c in MIXED if c not in candidates)), budget
        )
    reference = loss_under(measured.start.workload, Recipe(name="plain"), 0)
    return {
        way: {"change": _loss(measured, choice) - reference, "bits": _bits(measured, choice)}
        for way, choice in chosen.items()
    }


def _structural(measured: Measured, way: str, candidate: str) -> dict[str, str]:
    if way == "uniform":
        return dict.fromkeys(measured.groups, UNIFORM)
    kept = {group for group in measured.groups if _is_end(measured.layers[group], head=way == "blocks and head")}
    return {group: KEEP if group in kept else candidate for group in measured.groups}


def _is_end(layer: Layer, *, head: bool) -> bool:
    """Whether it lies in the first or last block, or, where that is asked, around the blocks."""
    return head if layer.block is None else layer.block in (0, layer.blocks - 1)


def _searched(
    measured: Measured, candidates: Sequence[str], budget: float, *, by_error: bool = False
) -> dict[str, str]:
    options = _options(measured, candidates, by_error=by_error)
    return dict(search(options, minimise="loss", limits={"seconds": budget * (1 + 1e-9)}).candidates)


def _options(measured: Measured, candidates: Sequence[str], *, by_error: bool) -> list[Option]:
    """What the plan chooses from, with average bits in the place of seconds."""
    options: list[Option] = []
    for group in measured.scores.groups:
        if group.name not in measured.groups:
            continue
        for name in (KEEP, *candidates):
            score, bits = group.candidates[name], WIDE if name == KEEP else CASTS[name][1]
            loss = score.output_error if by_error else max(score.loss, 0.0)
            share = measured.shares[group.name]
            options.append(Option(group=group.name, candidate=name, loss=loss, seconds=bits * share, bytes=0))
    return options


def _bits(measured: Measured, choice: Mapping[str, str]) -> float:
    return sum(measured.shares[g] * (WIDE if name == KEEP else CASTS[name][1]) for g, name in choice.items())


def _loss(measured: Measured, choice: Mapping[str, str]) -> float:
    sites = {group.name: group.sites for group in measured.scores.groups}
    precisions = {
        site: None if name == KEEP else LayerPrecision.uniform(CASTS[name][0])
        for group, name in choice.items()
        for site in sites[group]
    }
    made = Recipe(name="chosen", rules=compile_rules(measured.layers, precisions))
    return loss_under(measured.start.workload, made, measured.seed)


def _shares(inventory: Inventory, scores: Scores) -> dict[str, float]:
    """Each group's share of the FLOPs of all groups that are chosen for."""
    flops: dict[str, int] = {}
    for product in inventory.products:
        flops[product.site] = flops.get(product.site, 0) + product.flops
    groups = [group for group in scores.groups if not set(group.kinds) & {"qk", "pv", "matmul"}]
    own = {group.name: sum(flops.get(site, 0) for site in group.sites) for group in groups}
    return {name: count / sum(own.values()) for name, count in own.items()}
