"""A workload's model, and what one of its training steps multiplies."""

from __future__ import annotations

import torch
from torch import nn

from mixprec.planner import Inventory, take_inventory

from ._loading import WorkloadSource
from ._random_state import own_random_state
from ._user_code import calling


def trace_workload(source: WorkloadSource, *, seed: int = 0) -> tuple[nn.Module, Inventory]:
    """Build a workload on the CPU and trace one of its training steps; nothing is computed for it.

    Returns:
        The model, not converted, and the inventory of its first step.

    Raises:
        WorkloadError: a function of the workload that fails, with its line.
        ValueError: a step without a matrix product.

    Example:
        >>> from mixprec.compare import load_workload
        >>> model, inventory = trace_workload(load_workload("resnet", steps=1))
        >>> inventory.products[0].kind
        'Conv2d'
    """
    workload = source.build(seed, "cpu")
    with own_random_state("cpu"), calling("a step of the workload", source.file):
        torch.manual_seed(seed)
        batch = workload.batches(0)
        return workload.model, take_inventory(workload.model, workload.loss, batch, optimizer=workload.optimizer)
