"""What a recipe asks of the layers of a model, for engines that replace ``nn.Linear`` modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from torch import nn

from ..formats import unknown_name
from ..nn import conversion_of
from ..planner import Inventory
from ..planner.options import layers_of
from ..specs import ACTIVATION_PRODUCTS, OPERANDS, Cast, Layer, LayerPrecision, Recipe
from ._refusals import Refusal

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, kw_only=True)
class AskedLayer:
    """An ``nn.Linear`` that a recipe gives casts to.

    Attributes:
        path: of the module.
        precision: what it is given; operands in the compute dtype are ``None``.
        features: (output, input).
        has_bias: whether it adds one.
        shares_weight: the path of another module that has the same weight; empty where none has.
    """

    path: str
    precision: LayerPrecision
    features: tuple[int, int]
    has_bias: bool
    shares_weight: str = ""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a recipe asks of a model.

    Attributes:
        asked: the linear layers that are given casts, in the model's order.
        wide: sites of products that stay in the compute dtype, as the recipe says.
        kept: sites that the recipe gives casts and the caller keeps wide.
        refused: sites with casts that are no ``nn.Linear`` of their own.
        notes: what of the recipe no engine of modules takes over.
    """

    asked: tuple[AskedLayer, ...]
    wide: tuple[str, ...]
    kept: tuple[str, ...]
    refused: tuple[Refusal, ...]
    notes: tuple[str, ...]


def survey(model: nn.Module, recipe: Recipe, inventory: Inventory, keep: Sequence[str] = ()) -> Survey:
    """Ask of every product of a step, and of every linear module, what the recipe gives it.

    Args:
        model: not converted.
        recipe: without phases.
        inventory: of the model's training step.
        keep: globs of sites that stay in the compute dtype whatever the recipe says.

    Raises:
        ValueError: a recipe with phases, a converted model, a recipe without casts, or a glob that keeps nothing.
    """
    if recipe.phases:
        raise ValueError(
            f"recipe '{recipe.name}' has {len(recipe.phases)} phases, and a converted model has one precision for the "
            "whole run: give the recipe of one phase, recipe.at(step, total_steps)"
        )
    if conversion_of(model) is not None:
        raise ValueError(
            f"recipe '{recipe.name}' is to be run by another engine, and the model is converted by mixprec already: "
            "give the model as it was before, or call restore()"
        )
    modules = dict(model.named_modules())
    layers = {site: _with_features(layer, modules) for site, layer in layers_of(model, inventory).items()}
    given = {site: _given(recipe, layer, modules) for site, layer in layers.items()}
    narrow = {site: precision for site, precision in given.items() if precision is not None}
    kept = _kept(keep, narrow)
    if not set(narrow) - set(kept):
        raise ValueError(
            f"recipe '{recipe.name}' gives casts to no layer of this model: in {recipe.compute_dtype} alone it runs "
            "under torch.autocast, and there is nothing to tell an engine"
        )
    asked: list[AskedLayer] = []
    refused: list[Refusal] = []
    for site, precision in narrow.items():
        if site in kept:
            continue
        found = _linear_at(layers[site], modules, model)
        if isinstance(found, str):
            refused.append(Refusal(site=site, why=found))
        else:
            asked.append(_asked(layers[site].path, found, precision, modules))
    order = {path: index for index, path in enumerate(modules)}
    return Survey(
        asked=tuple(sorted(asked, key=lambda layer: order[layer.path])),
        wide=tuple(site for site, precision in given.items() if precision is None),
        kept=tuple(kept),
        refused=tuple(refused),
        notes=_notes(recipe),
    )


def _with_features(layer: Layer, modules: Mapping[str, nn.Module]) -> Layer:
    """Sizes of a linear module that the step did not reach, which rules may ask for."""
    module = modules.get(layer.path)
    if layer.features or not isinstance(module, nn.Linear):
        return layer
    return replace(layer, features=(module.out_features, module.in_features))


def _given(recipe: Recipe, layer: Layer, modules: Mapping[str, nn.Module]) -> LayerPrecision | None:
    """What the first rule gives; ``None`` where that is the compute dtype in all products."""
    rule = recipe.rule_for(layer)
    owner = _owner(layer.path, modules)
    if rule is None and layer.type not in ACTIVATION_PRODUCTS:  # of a call, rules may also name its module's class
        rule = recipe.rule_for(replace(layer, type=type(owner).__name__))
    if rule is None or rule.precision is None:
        return None
    return _narrowed(rule.precision, recipe.compute_dtype)


def _narrowed(precision: LayerPrecision, compute: str) -> LayerPrecision | None:
    """The casts that change anything: none to the compute dtype itself."""
    found = replace(precision, **{name: None for name in OPERANDS if _is_wide(precision.operand(name), compute)})
    has_casts = any(found.operand(name) is not None for name in OPERANDS)
    return found if has_casts or found.accumulator is not None else None


def _is_wide(cast: Cast | None, compute: str) -> bool:
    return cast is not None and not cast.is_scaled and cast.element == compute and not cast.is_random


def _owner(path: str, modules: Mapping[str, nn.Module]) -> nn.Module:
    """The module at a path, or the nearest one above a call's path."""
    while path not in modules:
        path = path.rpartition(".")[0]
    return modules[path]


def _linear_at(layer: Layer, modules: Mapping[str, nn.Module], model: nn.Module) -> nn.Linear | str:
    """The ``nn.Linear`` of a site, or why there is none that can be replaced."""
    module = modules.get(layer.path)
    only = "and only nn.Linear modules are replaced"
    if layer.type in ACTIVATION_PRODUCTS:
        return f"it is a product of activations ({layer.type}), {only}"
    if module is None or layer.type != type(module).__name__:
        return f"it is a call of {layer.type} in {type(_owner(layer.path, modules)).__name__}, {only}"
    if not isinstance(module, nn.Linear):
        return f"it is a {layer.type}, {only}"
    if type(module) is not nn.Linear:
        return f"it is a {type(module).__qualname__}, a class of its own, whose forward a replacement would not run"
    if any(module.__dict__.get(hooks) for hooks in _HOOKS):
        return "it has hooks, which a replacement would not run"
    if module is model:
        return "it is the whole model, which cannot be replaced in itself: put it into nn.Sequential"
    paths = [path for path, other in model.named_modules(remove_duplicate=False) if other is module]
    if len(paths) > 1:
        return f"it is registered under {len(paths)} paths ({', '.join(paths)}), of which only one would be replaced"
    return module


def _asked(path: str, module: nn.Linear, precision: LayerPrecision, modules: Mapping[str, nn.Module]) -> AskedLayer:
    sharing = (
        name
        for name, other in modules.items()
        if other is not module and any(p is module.weight for p in other.parameters(recurse=False))
    )
    return AskedLayer(
        path=path,
        precision=precision,
        features=(module.out_features, module.in_features),
        has_bias=module.bias is not None,  # pyright: ignore[reportUnnecessaryComparison]
        shares_weight=next(sharing, ""),
    )


def _kept(keep: Sequence[str], narrow: Mapping[str, LayerPrecision]) -> list[str]:
    for glob in keep:
        if not any(fnmatchcase(site, glob) for site in narrow):
            raise unknown_name("site with casts to keep wide:", glob, list(narrow))
    return [site for site in narrow if any(fnmatchcase(site, glob) for glob in keep)]


def _notes(recipe: Recipe) -> tuple[str, ...]:
    """What of a recipe is the loop's to do, in sentences."""
    notes = [f"The compute dtype is {recipe.compute_dtype}: convert the model to it, or run it under torch.autocast."]
    if recipe.compute_dtype == "fp32":
        notes = ["The compute dtype is fp32, and kernels for narrow formats want bf16 operands: expect casts."]
    if recipe.loss_scale.kind != "none":
        notes.append(f"The recipe scales the loss ({recipe.loss_scale.kind}): use torch.amp.GradScaler.")
    if recipe.weights != "master":
        notes.append(f"The recipe keeps weights as '{recipe.weights}': that is the optimizer's, and not taken over.")
    if recipe.moments.kind != "fp32":
        notes.append(f"The recipe keeps moments in {recipe.moments.kind}: that is the optimizer's, and not taken over.")
    return tuple(notes)
