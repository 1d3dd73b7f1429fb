"""Whether scores rank layers as quantizing one at a time does: the study behind docs/numerics/sensitivity.md."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import nn

from mixprec.compare import Workload, WorkloadSource
from mixprec.compare.planning import start_after
from mixprec.compare.workloads import gpt, resnet
from mixprec.nn import convert
from mixprec.planner import Candidate, GroupScores, Scores, measure_scores
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

#: What is studied by name: the cast of every operand.
CASTS: Mapping[str, str] = {"mxfp4": "mxfp4", "e2m1": "e2m1[tensor]"}
#: What the truth is measured on: see `Change`.
TRUTHS = ("scored", "further", "held_out")
#: Kinds of products that have no weight: no layers, and scored beside them.
_ACTIVATIONS = ("qk", "pv", "matmul")
#: The share of the held-out data that is measured by itself: both parts tell how far the whole is to be trusted.
_PART = 0.5
#: Held-out batches of text, of 32 windows each.
_HELD_OUT = 8
#: Batches of the training's stream that neither it nor the scores have come to.
_FURTHER = 16

Evaluate = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is trained, and where the study looks at it.

    Attributes:
        workload: ``"gpt"`` or ``"resnet"``.
        layers: of the GPT.
        steps: of the whole training, which its schedule is about.
        at: the step after which the study looks.
        seed: of the training.
        batches: that are scored.
    """

    workload: str
    layers: int
    steps: int
    at: int
    seed: int
    batches: int = 2


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a cast did to the loss of the same weights.

    Attributes:
        scored: mean over the batches that were scored.
        further: over batches of the training's stream that come later.
        further_parts: over every second of them, and over the others.
        held_out: over the held-out data.
        held_out_parts: over the first part of the held-out data, and over the rest.
    """

    scored: float
    further: float
    further_parts: tuple[float, float]
    held_out: float
    held_out_parts: tuple[float, float]


class Truth:
    """Losses of fixed weights under recipes, less those of the weights as they are.

    Args:
        subject: what the held-out data are those of.
        workload: trained, on the CPU.
    """

    def __init__(self, subject: Subject, workload: Workload) -> None:
        self._model, self._loss, self._scored = copy.deepcopy(workload.model).eval(), workload.loss, subject.batches
        further = range(subject.steps, subject.steps + _FURTHER)
        self._batches = [workload.batches(step) for step in (*range(subject.batches), *further)]
        # The first part of the held-out data is that of a workload which holds out less; nothing else of it is used.
        self._part, self._whole = (_held_out(subject, share) for share in (_PART, 1.0))
        self._share = _share(subject)
        self._plain = self._losses()

    def change(self, rules: Sequence[Rule]) -> Change:
        """Of the loss, where a recipe of these rules is in place."""
        conversion = convert(self._model, Recipe(name="study", rules=tuple(rules)))
        try:
            found = self._losses()
        finally:
            conversion.restore()
        changes = [a - b for a, b in zip(found, self._plain, strict=True)]
        *of_batches, first, whole = changes
        further = of_batches[self._scored :]
        return Change(
            scored=fmean(of_batches[: self._scored]),
            further=fmean(further),
            further_parts=(fmean(further[::2]), fmean(further[1::2])),
            held_out=whole,
            held_out_parts=(first, (whole - self._share * first) / (1 - self._share)),
        )

    def _losses(self) -> list[float]:
        """Of each batch, of the first part of the held-out data, and of all of them."""
        # In float64 from the logits on: small changes are differences of nearly equal losses.
        handle = self._model.register_forward_hook(lambda module, args, output: output.double())
        with torch.no_grad():
            values = [float(self._loss(self._model, batch)) for batch in self._batches]
        handle.remove()
        with torch.no_grad():
            return values + [float(of(self._model)["loss"]) for of in (self._part, self._whole)]


def study(subject: Subject, casts: Sequence[str] = tuple(CASTS)) -> dict[str, Any]:
    """Train, score, and quantize each layer alone, all layers, and every product.

    Args:
        subject: what, and when.
        casts: that are studied, of `CASTS`.

    Returns:
        By ``"scores"`` what measuring cost in steps' time, and by each cast's name ``"layers"``, ``"all layers"`` and
        ``"all products"`` with what was predicted and what was measured.
    """
    torch.manual_seed(subject.seed)
    start = start_after(_source(subject), recipe("fp32"), steps=subject.at, seed=subject.seed, device="cpu")
    workload = start.workload
    data = [workload.batches(step) for step in range(subject.batches)]
    candidates = [Candidate(name=name, precision=LayerPrecision.uniform(CASTS[name])) for name in casts]
    scores = measure_scores(workload.model, workload.loss, data, candidates)
    truth = Truth(subject, workload)
    made: dict[str, Any] = {"cost": scores.seconds / scores.step_seconds, "loss": scores.loss}
    for name in casts:
        made[name] = _of_cast(name, scores, truth)
    return made


def _of_cast(name: str, scores: Scores, truth: Truth) -> dict[str, Any]:
    layers = [group for group in scores.groups if not set(group.kinds) & set(_ACTIVATIONS)]
    found: list[dict[str, Any]] = []
    for group in layers:
        score = group.candidates[name]
        row = {"layer": group.name, "score": score.loss, "curvature": score.curvature, "slope": score.slope}
        row |= {"slope_error": score.slope_error, "output_error": score.output_error}
        found.append(row | _as_row(truth.change(_rules(name, [group]))))
    return {
        "layers": found,
        "all layers": _as_row(truth.change(_rules(name, layers))),
        "all products": {"score": scores.together[name], **_as_row(truth.change(_rules(name, scores.groups)))},
    }


def _as_row(change: Change) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(change).items()}


def _rules(name: str, groups: Sequence[GroupScores]) -> list[Rule]:
    precision = LayerPrecision.uniform(CASTS[name])
    sites = [pair for group in groups for pair in zip(group.sites, group.kinds, strict=True)]
    # A product of activations is said by the module that makes it and its kind.
    return [
        Rule(match=site.rpartition(".")[0], type=kind, precision=precision)
        if kind in _ACTIVATIONS
        else Rule(match=site, precision=precision)
        for site, kind in sites
    ]


def rank_correlation(rows: Sequence[Mapping[str, Any]], of: str, truth: str) -> float:
    """Spearman's, between a column and the measured change."""
    return _spearman([row[of] for row in rows], [row[truth] for row in rows])


def repeatability(rows: Sequence[Mapping[str, Any]], truth: str) -> float:
    """Spearman's, between what was measured on one half of the data and on the other."""
    first, rest = zip(*(row[f"{truth}_parts"] for row in rows), strict=True)
    return _spearman(first, rest)


def _spearman(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _source(subject: Subject) -> WorkloadSource:
    if subject.workload == "resnet":
        return WorkloadSource(name="resnet", function=functools.partial(resnet.workload, steps=subject.steps))
    function = functools.partial(gpt.workload, steps=subject.steps, config=gpt.GPTConfig(layers=subject.layers))
    return WorkloadSource(name="gpt", function=function)


def _held_out(subject: Subject, share: float) -> Evaluate:
    """The evaluation of the workload, on the first share of what it holds out."""
    if subject.workload == "resnet":
        images = round(resnet.ResNetConfig().test_images * share)
        return resnet.workload(0, "cpu", config=resnet.ResNetConfig(test_images=images)).evaluate
    count = round(_HELD_OUT * share)
    return gpt.workload(0, "cpu", config=gpt.GPTConfig(evaluation_batches=count)).evaluate


def _share(subject: Subject) -> float:
    """What the first part is of all, exactly."""
    whole = resnet.ResNetConfig().test_images if subject.workload == "resnet" else _HELD_OUT
    return round(whole * _PART) / whole
