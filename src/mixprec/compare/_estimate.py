"""What a workload under a recipe will need on a device, and take: before it runs there."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mixprec.hardware import Hardware
from mixprec.planner import (
    Inventory,
    LargestBatch,
    MemoryForecast,
    StepTime,
    estimate_time,
    largest_batch,
    predict_memory,
    resized,
    take_inventory,
)
from mixprec.specs import Recipe

from ._loading import WorkloadSource
from ._random_state import own_random_state
from ._user_code import calling
from ._workload import Workload

#: Share of a device's memory that tensors may take: the driver, libraries and gaps between tensors have the rest.
USABLE = 0.9
_NO_HARDWARE = "no --hardware was named: memory is predicted as on the CPU, and no time and no batch"
_LINK = "gradients are summed over {} devices by a ring at the full rate of the link, after the backward pass"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One recipe's part of an estimate.

    Attributes:
        recipe: its name.
        memory: of a step of each device.
        largest: batch and model of each device; ``None`` without hardware, or where it has no figure for its memory.
        time: of a step's operators; ``None`` without hardware.
        summing: seconds of summing gradients over devices.
        tokens: targets of a step of each device, or samples where those are not known.
        notes: what is assumed.
    """

    recipe: str
    memory: MemoryForecast
    largest: LargestBatch | None
    time: StepTime | None
    summing: float
    tokens: int | None
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float | None:
        """Of a step, the summing of gradients included."""
        return None if self.time is None else self.time.seconds + self.summing


def estimate(
    source: WorkloadSource,
    recipes: Sequence[Recipe],
    hardware: Hardware | None,
    *,
    count: int = 1,
    batch: int | None = None,
    seed: int = 0,
) -> tuple[Estimate, ...]:
    """Predict memory by kind and its peak, the largest batch and model, and a step's time under each recipe.

    Args:
        source: of the workload.
        recipes: in the order of the result.
        hardware: of each device; ``None``: memory alone, as on this CPU.
        count: devices that train on other samples each.
        batch: samples of a step of each device; ``None``: as many as the workload's batches have.
        seed: of the weights and the data.

    Raises:
        WorkloadError: a function of the workload that fails, with its line.
        ValueError: a step without a matrix product, a loss that is not finite, batches that cannot be resized.

    Example:
        >>> from mixprec.compare import load_workload
        >>> from mixprec.specs import recipe
        >>> (found,) = estimate(load_workload("resnet", steps=1), [recipe("bf16")], None)
        >>> found.memory.weights, found.time
        (88296, None)
    """
    workload = source.build(seed, "cpu")
    with own_random_state("cpu"), calling("a step of the workload", source.file):
        torch.manual_seed(seed)
        given = workload.batches(0)
        if batch is not None:
            given = resized(given, batch)
        _check_finite(workload, given)
        inventory = take_inventory(workload.model, workload.loss, given, optimizer=workload.optimizer)
        return tuple(_one(workload, given, inventory, recipe, hardware, count) for recipe in recipes)


def _one(
    workload: Workload, batch: Any, inventory: Inventory, recipe: Recipe, hardware: Hardware | None, count: int
) -> Estimate:
    is_cpu = hardware is None or hardware.kind == "cpu"
    job = workload.model, workload.loss, batch, recipe
    memory = predict_memory(*job, optimizer=workload.optimizer, is_cpu=is_cpu)
    notes = list(dict.fromkeys((*inventory.notes, *memory.notes)))
    largest = time = None
    if hardware is None:
        notes.append(_NO_HARDWARE)
    else:
        time = estimate_time(inventory, recipe, hardware)
        if hardware.memory is not None and memory.samples is not None:
            limit = USABLE * hardware.memory.value
            largest = largest_batch(*job, limit, optimizer=workload.optimizer, is_cpu=is_cpu)
        notes += [note for note in time.notes if note not in notes]
    summing, told = _summing(memory, hardware, count)
    return Estimate(
        recipe=memory.recipe,
        memory=memory,
        largest=largest,
        time=time,
        summing=summing,
        tokens=inventory.tokens or inventory.samples,
        notes=(*notes, *told),
    )


def _summing(memory: MemoryForecast, hardware: Hardware | None, count: int) -> tuple[float, tuple[str, ...]]:
    """Seconds of an all-reduce of the gradients, a ring's 2 (n - 1) / n of them over the link."""
    if count == 1 or hardware is None:
        return 0.0, ()
    if hardware.link is None:
        raise ValueError(
            f"{hardware.name} has no figure for the link between devices, which --count {count} needs: add link [B/s] "
            "in a TOML file of your own and give its path as --hardware"
        )
    return 2 * (count - 1) / count * memory.gradients / hardware.link.value, (_LINK.format(count),)


def _check_finite(workload: Workload, batch: Any) -> None:
    """Refuse a job whose loss is no number at the start: all that follows would be of no use.

    A model on the meta device has no loss to look at.
    """
    model = copy.deepcopy(workload.model).train()
    if any(p.is_meta for p in model.parameters()):
        return
    with torch.no_grad():
        loss = workload.loss(model, batch)
    value = float(loss.detach()) if loss.numel() == 1 else 0.0  # what is no number is told by the trace
    if not math.isfinite(value):
        raise ValueError(
            f"the loss of the first batch is {value}: expected a finite number; `mixprec check` tells where it begins"
        )
