"""Checks of a workload before anything is trained: each function is called once, and what it returns is seen."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from mixprec.formats import unknown_name

from ._same_batch import difference
from ._user_code import WorkloadError, calling
from ._workload import Workload


def check_workload(workload: Workload, name: str, file: Path | None) -> None:
    """Make one forward pass, one evaluation and one optimizer on a copy of the model, as the training will.

    Args:
        workload: what to check.
        name: what the messages call it.
        file: the user's file, whose lines the messages name; ``None`` for a built-in workload.

    Raises:
        WorkloadError: the first function that fails or returns something else than it should.
    """
    try:
        model = copy.deepcopy(workload.model)
    except Exception as error:
        raise WorkloadError(f"{name}: the model cannot be copied for each recipe ({error})") from error
    batch = _first_batch(workload, file)
    with contextlib.suppress(Exception):  # what cannot be copied is compared as it is
        batch = copy.deepcopy(batch)
    with calling("loss(model, batches(0))", file):
        loss = workload.loss(model, _first_batch(workload, file))
    _check_loss(name, loss, model)
    _check_batch(name, batch, _first_batch(workload, file))
    with calling("optimizer(parameters)", file):
        optimizer = cast(object, workload.optimizer(model.parameters()))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise WorkloadError(
            f"{name}: optimizer(parameters) returned {_kind(optimizer)}, expected torch.optim.Optimizer"
        )
    if workload.schedule is not None:
        with calling("schedule(0)", file):
            _number(name, "schedule(0)", workload.schedule(0))
    with torch.no_grad(), calling("evaluate(model)", file):
        metrics = cast(object, workload.evaluate(model.eval()))
    if not isinstance(metrics, Mapping) or "loss" not in metrics:
        found = sorted(map(str, metrics)) if isinstance(metrics, Mapping) else _kind(metrics)
        raise WorkloadError(f'{name}: evaluate(model) returned {found}, expected named metrics with one named "loss"')
    for key, value in metrics.items():
        _number(name, f"evaluate(model)[{key!r}]", value)
    _refuse_nan(name, 'evaluate(model)["loss"]', float(metrics["loss"]))
    for key in workload.metrics:
        if key not in metrics:
            raise WorkloadError(f"{name}: {unknown_name('metric of evaluate(model)', key, sorted(map(str, metrics)))}")


def _first_batch(workload: Workload, file: Path | None) -> object:
    """Draw as each recipe's first step will: from torch's random state, which is then set anew."""
    torch.manual_seed(0)
    with calling("batches(0)", file):
        return workload.batches(0)


def _check_batch(name: str, first: object, again: object) -> None:
    place = difference(first, again, "batches(0)")
    if place is not None:
        raise WorkloadError(
            f"{name}: {place} is not the same at every call: every recipe must see the same data. Draw it by the step, "
            "e.g. with torch.Generator().manual_seed(step), and leave a batch that is handed out unchanged"
        )


def _refuse_nan(name: str, what: str, value: float) -> None:
    if math.isnan(value):
        raise WorkloadError(f"{name}: {what} is NaN for the untrained model in fp32: look into the data and the loss")


def _check_loss(name: str, loss: object, model: nn.Module) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else _kind(loss)
        raise WorkloadError(f"{name}: loss(model, batch) returned {found}, expected a tensor of one value")
    if not loss.requires_grad:
        raise WorkloadError(f"{name}: the loss needs no gradient: is it computed under no_grad, or detached?")
    _refuse_nan(name, "loss(model, batches(0))", loss.item())
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(loss, trained, allow_unused=True) if trained else ()
    if all(gradient is None for gradient in gradients):  # pyright: ignore[reportUnnecessaryComparison]
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
