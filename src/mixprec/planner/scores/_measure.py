"""Scores of a model's layers: what each candidate would cost in loss, and what it does to the weights' gradients."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...nn import convert, is_without_session, uncompiled
from ...specs import ACTIVATION_PRODUCTS, LayerPrecision, Recipe, Rule
from .._candidate import KEEP, Candidate
from .._scores import Scores
from ._aside import aside, frozen
from ._batch import BatchScores, score_batch
from ._collector import Collector
from ._curvature import drawn_gradients
from ._effort import Effort
from ._entropy import CrossEntropy, cross_entropies
from ._groups import Grouping
from ._notes import notes_on
from ._outputs import Outputs, OutputWatch
from ._products import Casts
from ._seen import Keys
from ._summary import group_scores

Loss = Callable[[nn.Module, Any], Tensor]
_NAME = "scores"
_SEES_ALL = LayerPrecision.uniform("fp32")
_ALL = Effort()


def measure_scores(
    model: nn.Module,
    loss: Loss,
    batches: Sequence[Any],
    candidates: Sequence[Candidate],
    *,
    training: bool | None = False,
    terms: int | None = None,
    effort: Effort = _ALL,
    seed: int = 0,
) -> Scores:
    """Score every candidate for every group of sites, from one forward and backward pass a batch.

    The model is left as it was: weights, gradients, buffers, modes and random numbers.

    Args:
        model: in fp32, not converted.
        loss: ``loss(model, batch)``, a scalar: the mean over its terms (tokens, samples).
        batches: 1 to 8 of them, of any shapes.
        candidates: what to score; ``"keep"`` is added where it is missing.
        training: mode of the model while it is measured; ``None``: as it is.
        terms: that the loss of a batch averages over; ``None``: as many as rows of the model's output have a gradient.
        effort: what is measured beside the forward products of weights, and for how long.
        seed: of stochastic roundings.

    Returns:
        The scores; their ``seconds`` are of all this, with the plain pass that ``step_seconds`` is of.

    Raises:
        ValueError: no batches, a loss that is no finite scalar, a model without a product that rules are about.
    """
    batches = list(batches)
    _check(batches, candidates)
    precisions = {c.name: c.precision for c in candidates if c.precision is not None}
    casts = Casts(precisions, gradients=effort.gradients)
    began = time.perf_counter()
    grouping, keys, found = Grouping(), Keys(), list[BatchScores]()
    with aside(model, training=training), uncompiled():
        step_seconds = _step_seconds(model, loss, batches[0])
        conversion = convert(model, _recipe(effort.activations))
        told = [note for note in conversion.notes if not is_without_session(note)]
        try:
            for index, batch in enumerate(batches):
                before = time.perf_counter()
                known = {name for scored in found for name, site in scored.sites.items() if site.weight_gradient > 0}
                shown = known if effort.gradients else None
                collector = Collector(casts, grouping, keys, shown, seed + index)
                with frozen(model), conversion.products_shown_to(collector), OutputWatch(model) as watch:
                    value = loss(model, batch)
                    _check_loss(value, index)
                    _check_products(collector, model)
                    outputs = watch.outputs(value, terms)
                    entropies = cross_entropies(outputs)
                    _backward(value, outputs, entropies, collector, seed + index)
                found.append(score_batch(float(value.detach()), collector, outputs.counted, _missed(entropies)))
                now = time.perf_counter()
                if not effort.allows(now - began, now - before, step_seconds):
                    break
        finally:
            conversion.restore()
    if len(found) < len(batches):
        told.append(
            f"{len(found)} of {len(batches)} batches measured: one more was not expected to end within "
            f"{effort.most_steps:g} steps' time"
        )
    groups, together = group_scores(found, grouping, list(precisions))
    return Scores(
        loss=sum(batch.loss for batch in found) / len(found),
        batches=len(found),
        groups=groups,
        together=together,
        seconds=time.perf_counter() - began,
        step_seconds=step_seconds,
        notes=(*(note.removeprefix(f"recipe {_NAME}: ") for note in told), *notes_on(groups, candidates)),
    )


def _recipe(activations: bool) -> Recipe:
    """Every product has a cast, to what it is already: so all of them are seen, and none is changed."""
    kinds = ACTIVATION_PRODUCTS if activations else ()
    rules = (Rule(type=kind, precision=_SEES_ALL, required=False) for kind in kinds)
    return Recipe(name=_NAME, rules=(*rules, Rule(precision=_SEES_ALL, required=False)))


def _check(batches: Sequence[Any], candidates: Sequence[Candidate]) -> None:
    if not batches:
        raise ValueError("measure_scores got no batches: expected 1 to 8 batches of the data that the model trains on")
    names = [candidate.name for candidate in candidates]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"measure_scores got two candidates called {twice[0]!r}: every candidate needs its own name")
    for candidate in candidates:
        if (candidate.precision is None) != (candidate.name == KEEP):
            raise ValueError(
                f"candidate {candidate.name!r} has precision {candidate.precision}: only {KEEP!r} has none, and always"
            )


def _check_loss(value: Tensor, index: int) -> None:
    if not isinstance(value, Tensor) or value.numel() != 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"loss of batch {index} is {value!r}, expected a tensor of one number")
    if not math.isfinite(float(value.detach())):
        raise ValueError(
            f"loss of batch {index} is {float(value.detach())}: nothing can be scored where the loss is not finite "
            "before anything is rounded; mixprec.monitor.locate(model, step) finds the first bad value"
        )


def _missed(entropies: Sequence[CrossEntropy]) -> Tensor | None:
    """[rows of all outputs], what the model gives to other classes than the targets."""
    return torch.cat([entropy.missed() for entropy in entropies]) if entropies else None


def _backward(
    value: Tensor, outputs: Outputs, entropies: Sequence[CrossEntropy], collector: Collector, seed: int
) -> None:
    """Run the backward pass towards the anchor, through every tap; that of drawn gradients before it."""
    drawn = drawn_gradients(entropies, outputs.counted.terms, seed)
    try:
        if drawn is not None:
            with collector.drawing():
                torch.autograd.grad(outputs.values, collector.anchor, drawn, retain_graph=True, allow_unused=True)
        torch.autograd.grad(value, collector.anchor, allow_unused=True)
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise ValueError(
            "measure_scores: the model recomputes activations by checkpoints that torch cannot run towards a part of "
            "the graph alone: say use_reentrant=False, or switch checkpointing off for the measurement"
        ) from error


def _check_products(collector: Collector, model: nn.Module) -> None:
    if not collector.sites:
        raise ValueError(
            f"{type(model).__name__} ran no matrix product that a recipe's rules are about: expected a model with "
            "linear layers, convolutions or attention, whose loss was computed through it with gradients enabled"
        )


def _step_seconds(model: nn.Module, loss: Loss, batch: Any) -> float:
    """Of a plain forward and backward pass over a batch, warmed up by a forward pass."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.no_grad():
        loss(model, batch)
    began = time.perf_counter()
    value = loss(model, batch)
    if parameters and isinstance(value, Tensor) and value.numel() == 1 and value.requires_grad:  # pyright: ignore[reportUnnecessaryIsInstance]
        torch.autograd.grad(value, parameters, allow_unused=True)
    return time.perf_counter() - began
