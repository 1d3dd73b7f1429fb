"""What is compared: a workload, recipes and seeds; and the checks that need no training."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mixprec.formats import unknown_name
from mixprec.records import ComparisonRecord
from mixprec.specs import Recipe
from mixprec.training import prepare

from ._loading import WorkloadSource
from ._machine import machine, versions
from ._user_code import WorkloadError, calling
from ._workload import Workload


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison to be run.

    Attributes:
        source: gives the workload of a seed.
        recipes: what to train under, with distinct names, in the order in which they are shown.
        seeds: each gives its own initial weights and data order, shared by all recipes.
        baseline: name of the recipe that gaps and time ratios are taken to; the first by default.
        device: where to train, e.g. ``"cpu"`` or ``"cuda:0"``.
        one_by_one: train the recipes of a seed one after another, instead of one step of each in turn. Needs the
            memory of one model instead of all; but a slow minute of the machine then falls on one recipe.

    Raises:
        ValueError: without recipes or seeds, for repeated ones, or for a baseline that is not compared.
    """

    source: WorkloadSource
    recipes: tuple[Recipe, ...]
    seeds: tuple[int, ...]
    baseline: str = ""
    device: str = "cpu"
    one_by_one: bool = False

    def __post_init__(self) -> None:
        if not self.recipes or not self.seeds:
            raise ValueError(f"a comparison needs a recipe and a seed, got {len(self.recipes)} and {len(self.seeds)}")
        for kind, values in (("recipe", self.names), ("seed", self.seeds)):
            repeated = [str(value) for value, count in Counter(values).items() if count > 1]
            if repeated:
                raise ValueError(f"{kind} {', '.join(repeated)} is named more than once: name each once")
        if not self.baseline:
            object.__setattr__(self, "baseline", self.names[0])
        if self.baseline not in self.names:
            raise unknown_name("baseline", self.baseline, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The recipes' names."""
        return tuple(recipe.name for recipe in self.recipes)


def check(comparison: Comparison) -> ComparisonRecord:
    """Try everything once on a throw-away model, so that mistakes show before anything is trained or written.

    Returns:
        What the records begin with.

    Raises:
        ValueError: for a workload or a recipe that does not work; the message names what to mend.
    """
    _check_device(comparison.device)
    seed = comparison.seeds[0]
    workload = comparison.source.build(seed, comparison.device)
    _check_workload(workload, comparison)
    for recipe in comparison.recipes:
        model = copy.deepcopy(workload.model)
        prepare(model, workload.optimizer(model.parameters()), recipe, clip_norm=workload.clip_norm, seed=seed)
    return ComparisonRecord(
        workload=comparison.source.name,
        recipes=comparison.names,
        baseline=comparison.baseline,
        seeds=comparison.seeds,
        steps=workload.steps,
        machine=machine(comparison.device),
        versions=versions(),
        data=dict(workload.data),
    )


def _check_device(name: str) -> None:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason[:200]}; use --device cpu") from error


def _check_workload(workload: Workload, comparison: Comparison) -> None:
    """One forward pass, one evaluation and one optimizer, as the training will call them."""
    name, file = comparison.source.name, comparison.source.file
    try:
        model = copy.deepcopy(workload.model)
    except Exception as error:
        raise WorkloadError(f"{name}: the model cannot be copied for each recipe ({error})") from error
    with calling("batches(0)", file):
        batch = workload.batches(0)
    with calling("loss(model, batches(0))", file):
        loss = workload.loss(model, batch)
    _check_loss(name, loss, model)
    with calling("optimizer(parameters)", file):
        optimizer: object = workload.optimizer(model.parameters())
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise WorkloadError(f"{name}: optimizer(parameters) returned {_kind(optimizer)}, expected torch.optim.Optimizer")
    if workload.schedule is not None:
        with calling("schedule(0)", file):
            _number(name, "schedule(0)", workload.schedule(0))
    with torch.no_grad(), calling("evaluate(model)", file):
        metrics: object = workload.evaluate(model.eval())
    if not isinstance(metrics, Mapping) or "loss" not in metrics:
        found = sorted(map(str, metrics)) if isinstance(metrics, Mapping) else _kind(metrics)
        raise WorkloadError(f'{name}: evaluate(model) returned {found}, expected named metrics with one named "loss"')
    for key, value in metrics.items():
        _number(name, f"evaluate(model)[{key!r}]", value)


def _check_loss(name: str, loss: object, model: nn.Module) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else _kind(loss)
        raise WorkloadError(f"{name}: loss(model, batch) returned {found}, expected a tensor of one value")
    if not loss.requires_grad:
        raise WorkloadError(f"{name}: the loss needs no gradient: is it computed under no_grad, or detached?")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True) if trained else ()
    if all(gradient is None for gradient in gradients):
        raise WorkloadError(
            f"{name}: the loss depends on no parameter of the model that was handed to loss(model, batch); "
            "use that model, not one from outside, for each recipe trains a copy of its own"
        )


def _number(name: str, what: str, value: object) -> None:
    try:
        float(value)  # pyright: ignore[reportArgumentType]  # the point is to find out
    except (TypeError, ValueError, RuntimeError):
        raise WorkloadError(f"{name}: {what} is {_kind(value)}, expected a number") from None


def _kind(value: object) -> str:
    return type(value).__name__
