"""From model, optimizer and recipe to a session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn
from torch.optim import Optimizer

from ..loss_scaling import init, parse_loss_scale
from ..nn import Conversion, conversion_of, convert, resolve
from ..optim import keep_weights
from ..specs import LossScale, Recipe, load_recipe
from ._checks import check_clip_norm, check_integer, check_model, check_optimizer
from ._run_folder import RunFolder
from ._session import Session


def prepare(
    model: nn.Module,
    optimizer: Optimizer,
    recipe: Recipe | str | Path = "auto",
    *,
    clip_norm: float | None = None,
    run: str | Path | None = None,
    loss_scale: LossScale | float | str | None = None,
    seed: int = 0,
    total_steps: int | None = None,
) -> Session:
    """Train ``model`` by ``optimizer`` as ``recipe`` says.

    Converts the model in place (unless it is converted already), gives 16-bit parameters fp32 masters in the
    optimizer, and starts the loss scale. ``Session.restore()`` undoes all of it.

    Args:
        model: on its device; before ``torch.compile``. With sharding the order is: ``mixprec.convert``, then
            ``fully_shard`` or DDP, then the optimizer, then ``prepare``.
        optimizer: over parameters of the model; any class whose step needs no closure.
        recipe: a recipe, its name, or the path of its TOML file; ``"auto"`` is what runs natively on the model's
            device, or, for a model that is converted already, the recipe that it was converted to.
        clip_norm: largest 2-norm of all gradients together; ``None``: no clipping.
        run: a folder for records, recipe and versions. Where it holds steps of an earlier run, that run must be
            continued by ``Session.load_state_dict`` before the first step, or another folder given.
        loss_scale: instead of the recipe's: a ``LossScale``, a number (static), or ``"none"`` or ``"dynamic"``.
        seed: of stochastic casts, and told in the records.
        total_steps: how many steps the run is to apply; needed by a recipe with a phase that is a share of it.

    Raises:
        ValueError: a model that is compiled, scripted or sharded before its conversion; an optimizer that does not
            fit; an unknown recipe; a loss scale that is no power of two; a model converted to another recipe; a run
            folder of something else.
        TypeError: a model, an optimizer or another argument that is none.
        OSError: a run folder that cannot be written.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1)
        >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16", clip_norm=1.0)
        >>> session.step(model(torch.ones(4, 2)).square().mean()).applied
        True
    """
    check_model(model)
    check_optimizer(model, optimizer)
    check_clip_norm(clip_norm)
    check_integer("seed", seed, bits=64)
    if total_steps is not None:
        check_integer("total_steps", total_steps, least=1)
    existing = _existing_conversion(model)
    wanted = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    chosen = resolve(wanted, model) if existing is None else _agreed(existing, wanted, model)
    if loss_scale is not None:
        chosen = replace(chosen, loss_scale=parse_loss_scale(loss_scale))
    scale = init(chosen.loss_scale)
    conversion = existing or convert(model, chosen, seed=seed)
    try:
        folder = None if run is None else RunFolder(run, chosen, seed)
        kept = keep_weights(optimizer, chosen.weights)
        return Session(
            model, conversion, kept, chosen, scale, clip_norm=clip_norm, folder=folder, total_steps=total_steps
        )
    except BaseException:
        if existing is None:
            conversion.restore()
        raise


def _existing_conversion(model: nn.Module) -> Conversion | None:
    """The conversion of the model or of the one that it wraps (DDP, a compiled model)."""
    found = [c for c in map(conversion_of, model.modules()) if c is not None]
    if len(found) > 1:
        raise ValueError(f"prepare: {len(found)} parts of the model are converted apart: convert the whole model once")
    return found[0] if found else None


def _agreed(existing: Conversion, wanted: Recipe, model: nn.Module) -> Recipe:
    if wanted.name != "auto" and wanted != existing.recipe:
        raise ValueError(
            f"prepare: the model is converted to recipe {existing.recipe.name} already, got recipe {wanted.name}: "
            "leave the recipe out, or restore() the conversion first"
        )
    return existing.recipe
