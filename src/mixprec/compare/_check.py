"""The check of a workload under a recipe: one step watched, before anything is trained."""

from __future__ import annotations

import copy

import torch

from mixprec.monitor import Preflight
from mixprec.specs import Recipe
from mixprec.training import prepare

from ._loading import WorkloadSource
from ._random_state import own_random_state
from ._user_code import calling


def check_recipe(source: WorkloadSource, recipe: Recipe, *, seed: int = 0, device: str = "cpu") -> Preflight:
    """Prepare a workload as a comparison would, run its first step watched, and tell what will go wrong.

    Args:
        source: of the workload.
        recipe: to train under.
        seed: of the weights and the data.
        device: where.

    Returns:
        The findings; ``print`` them.

    Raises:
        WorkloadError: a function of the workload that fails, with its line.
        ValueError: a workload and a recipe that do not fit.

    Example:
        >>> from mixprec.compare import load_workload
        >>> from mixprec.specs import load_recipe
        >>> len(check_recipe(load_workload("resnet", steps=1), load_recipe("bf16")))
        0
    """
    workload = source.build(seed, device)
    with own_random_state(device), calling(f"a step under recipe {recipe.name}", source.file):
        torch.manual_seed(seed)
        model = copy.deepcopy(workload.model).train()
        session = prepare(
            model,
            workload.optimizer(model.parameters()),
            recipe,
            clip_norm=workload.clip_norm,
            seed=seed,
            total_steps=workload.steps,
        )
        batch = workload.batches(0)
        return session.check(lambda: workload.loss(model, batch))
