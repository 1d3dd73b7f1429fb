"""From model, optimizer and recipe to a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ..distributed import ranks_of
from ..loss_scaling import parse_loss_scale
from ..monitor import Monitoring
from ..nn import Conversion, conversion_of, convert, resolve
from ..optim import KeptWeights, NarrowedParameters, keep_weights, narrow_parameters
from ..specs import LossScale, Recipe, load_recipe, recipe_differences
from ._checks import check_clip_norm, check_integer, check_model, check_monitoring, check_names
from ._optimizers import name_optimizers
from ._run_folder import RunFolder
from ._scales import DEFAULT, LossScales
from ._schedules import Schedules
from ._session import Session
from ._session_watches import DEFAULT_MONITORING, Watchable, watching_of
from ._settings import Settings
from ._text import narrowing_notes

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class MoreOptions(TypedDict, total=False):
    """Options of ``prepare`` that few need.

    Attributes:
        schedule: a learning-rate scheduler of ``torch.optim.lr_scheduler``, or a mapping from optimizers' names to
            such: the session steps it after every applied step of its optimizer, and after no other.
        process_group: the ranks that skip together and agree on loss scales: ``"default"``: all, where
            ``torch.distributed`` is initialised; ``None``: this one alone; or a process group.
        monitor: what is watched; left out, the defaults of ``Monitoring``, statistics and alarms with a run folder
            only; ``None``: nothing.
    """

    schedule: LRScheduler | Mapping[str, LRScheduler] | None
    process_group: ProcessGroup | Literal["default"] | None
    monitor: Monitoring | None


def prepare(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer],
    recipe: Recipe | str | Path = "auto",
    *,
    clip_norm: float | None = None,
    run: str | Path | None = None,
    loss_scale: LossScale | float | str | Mapping[str, LossScale | float | str] | None = None,
    seed: int = 0,
    total_steps: int | None = None,
    **options: Unpack[MoreOptions],
) -> Session:
    """Train ``model`` by ``optimizer`` as ``recipe`` says.

    Converts the model in place (unless it is converted already), decides how weights are kept in the optimizer (16-bit
    parameters get fp32 masters, or what the recipe says), and starts the loss scale. ``Session.restore()`` undoes all
    of it.

    Args:
        model: on its device; before ``torch.compile``. With sharding the order is: ``mixprec.convert``, then
            ``fully_shard`` or DDP, then the optimizer, then ``prepare``.
        optimizer: over parameters of the model; any class whose step needs no closure. Several as a list, or by name:
            they step as one, or each by ``session.step(optimizer=name)``.
        recipe: a recipe, its name, or the path of its TOML file; ``"auto"`` is what runs natively on the model's
            device, or, for a model that is converted already, the recipe that it was converted to.
        clip_norm: largest 2-norm of all gradients together; ``None``: no clipping.
        run: a folder for records, recipe and versions. Where it holds steps of an earlier run, that run must be
            continued by ``Session.load_state_dict`` before the first step, or another folder given.
        loss_scale: instead of the recipe's: a ``LossScale``, a number (static), or ``"none"`` or ``"dynamic"``; or a
            mapping from losses' names to such, where ``"loss"`` is the one without a name.
        seed: of stochastic casts, and told in the records.
        total_steps: how many steps the run is to apply; needed by a recipe with a phase that is a share of it.
        **options: ``schedule``: a scheduler of ``torch.optim.lr_scheduler``, or a mapping from optimizers' names to
            such, which the session steps after applied steps only; ``process_group``: the ranks that step together:
            ``"default"`` (all, where ``torch.distributed`` is initialised), ``None`` (this one alone), or a group;
            ``monitor``: what is watched, a ``mixprec.monitor.Monitoring``; left out, its defaults, statistics and
            alarms with a run folder only; ``None``: nothing.

    Raises:
        ValueError: a model that is compiled, scripted or sharded before its conversion; optimizers that do not
            fit; an unknown recipe; a loss scale that is no power of two; a model converted to another recipe; a run
            folder of something else; a schedule that the session cannot step.
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
    optimizers = name_optimizers(model, optimizer)
    check_clip_norm(clip_norm)
    check_integer("seed", seed, bits=64)
    if total_steps is not None:
        check_integer("total_steps", total_steps, least=1)
    check_names(options, MoreOptions.__annotations__)
    monitoring = check_monitoring(options.get("monitor", DEFAULT_MONITORING if run is None else Monitoring()))
    schedules = Schedules(options.get("schedule"), optimizers)
    ranks = ranks_of(options.get("process_group", "default"))
    existing = _existing_conversion(model)
    wanted = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    chosen = resolve(wanted, model) if existing is None else _agreed(existing, wanted, loss_scale)
    own, others = _loss_scales(loss_scale, chosen)
    chosen = replace(chosen, loss_scale=own)
    scales = LossScales(own, others)
    with ExitStack() as undo:  # of what was done, should a later part fail
        narrowed = _narrow(model, chosen, undo)
        conversion = existing or convert(model, chosen, seed=seed)
        if existing is None:
            undo.callback(conversion.restore)
        folder = None if run is None else RunFolder(run, chosen, seed)
        kept = _keep(optimizers, chosen, seed, narrowed, undo)
        watchable = Watchable(model=model, conversion=conversion, kept=kept, recipe=chosen, seed=seed, folder=folder)
        watching = watching_of(watchable, monitoring)
        undo.callback(watching.close)
        settings = Settings(
            clip_norm=clip_norm,
            folder=folder,
            total_steps=total_steps,
            schedules=schedules,
            ranks=ranks,
            narrowed=narrowed,
            notes=narrowing_notes(model, chosen, narrowed),
            watching=watching,
            listeners=watchable.listeners,
        )
        session = Session(model, conversion, kept, chosen, scales, settings)
        undo.pop_all()
        return session


def _narrow(model: nn.Module, recipe: Recipe, undo: ExitStack) -> NarrowedParameters | None:
    """Bring fp32 parameters to 16 bits, where the recipe keeps them so."""
    if recipe.weights == "master":
        return None
    narrowed = narrow_parameters(model, _DTYPES[recipe.compute_dtype])
    undo.callback(narrowed.restore)
    return narrowed


def _keep(
    optimizers: Mapping[str, Optimizer],
    recipe: Recipe,
    seed: int,
    narrowed: NarrowedParameters | None,
    undo: ExitStack,
) -> dict[str, KeptWeights]:
    """Decide how each optimizer's weights are kept; each draws bits of its own."""
    kept: dict[str, KeptWeights] = {}
    for i, (name, optimizer) in enumerate(optimizers.items()):
        kept[name] = keep_weights(optimizer, recipe.weights, moments=recipe.moments, seed=seed ^ i)
        undo.callback(kept[name].restore)
        kept[name].refuse_other_steps()
    if narrowed is not None:
        for weights in kept.values():
            narrowed.start(weights)
        narrowed.forget()
    return kept


def _loss_scales(given: object, recipe: Recipe) -> tuple[LossScale, dict[str, LossScale]]:
    """The loss scale of losses that have none of their own, and those that have one, by name."""
    if given is None:
        return recipe.loss_scale, {}
    if not isinstance(given, Mapping):
        return parse_loss_scale(cast("Any", given)), {}
    named = {name: parse_loss_scale(value) for name, value in cast("Mapping[str, Any]", given).items()}
    return named.pop(DEFAULT, recipe.loss_scale), named


def _existing_conversion(model: nn.Module) -> Conversion | None:
    """The conversion of the model or of the one that it wraps (DDP, a compiled model)."""
    found = [c for c in map(conversion_of, model.modules()) if c is not None]
    if len(found) > 1:
        raise ValueError(f"prepare: {len(found)} parts of the model are converted apart: convert the whole model once")
    return found[0] if found else None


def _agreed(existing: Conversion, wanted: Recipe, loss_scale: object) -> Recipe:
    own = replace(wanted, loss_scale=_loss_scales(loss_scale, wanted)[0])
    if wanted.name != "auto" and existing.recipe not in (wanted, own):
        differences = "; ".join(recipe_differences(existing.recipe, own)) or "their names or reasons alone"
        raise ValueError(
            f"prepare: the model is converted to recipe {existing.recipe.name} already, got recipe {wanted.name}, "
            f"which differs ({differences}): leave the recipe out, or restore() the conversion first"
        )
    return existing.recipe
