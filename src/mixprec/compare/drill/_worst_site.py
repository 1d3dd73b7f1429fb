"""The site that bears a fault of the precision worst, by trying each."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule

from .._random_state import own_random_state
from .._workload import Workload
from ._fault import Place
from ._precision import SiteFault

#: Batches over which the loss is averaged.
BATCHES = 2


def layer_sites(model: nn.Module) -> tuple[str, ...]:
    """Layers with a weight that a recipe's rules can narrow, in the order of the model.

    Example:
        >>> layer_sites(nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)))
        ('0', '2')
    """
    twin = copy.deepcopy(model)
    every = Recipe(name="sites", rules=(Rule(precision=LayerPrecision.uniform("e2m1[tensor]"), required=False),))
    narrowed = convert(twin, every).precisions()
    weighted = {
        name for name, module in twin.named_modules() if next(module.parameters(recurse=False), None) is not None
    }
    return tuple(site for site in narrowed if site in weighted)


def worst_site(kind: type[SiteFault], workload: Workload, recipe: Recipe, seed: int) -> str:
    """The site at which the fault raises the training loss most: of the same weights, on the same batches.

    Args:
        kind: of fault.
        workload: whose model has weights that have learned something: new ones bear everything.
        recipe: what else the model computes in.
        seed: of the casts and of what the model draws.

    Returns:
        Its path; empty where no layer can be narrowed. A loss that is not finite is the worst.
    """
    losses = {site: _loss_under(kind, site, workload, recipe, seed) for site in layer_sites(workload.model)}
    return max(losses, key=lambda site: losses[site], default="")


def _loss_under(kind: type[SiteFault], site: str, workload: Workload, recipe: Recipe, seed: int) -> float:
    fault = kind.planted(Place(at=1, seed=seed, total_steps=workload.steps, site=site))
    model = copy.deepcopy(workload.model).train()
    conversion = convert(model, fault.at_once(recipe), seed=seed)
    conversion.begin_step()
    total = 0.0
    device = next(model.parameters()).device
    with own_random_state(device):
        torch.manual_seed(seed)
        _forward(workload, model, 0)  # a delayed scale has then seen its operand
        for number in range(BATCHES):
            fault.hold(conversion)
            total += _forward(workload, model, number)
    return total if math.isfinite(total) else math.inf


def _forward(workload: Workload, model: nn.Module, number: int) -> float:
    return float(workload.loss(model, workload.batches(number)).detach())
