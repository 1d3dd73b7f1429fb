"""From a recipe as written to the recipe for this device, and what has to be told about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from ..specs import LossScale, Recipe, auto_recipe
from ._device import device_of, native_here
from ._site import ConversionState

_WITHOUT_SESSION = "without a session (mixprec.prepare) "


def resolve(recipe: Recipe, model: nn.Module) -> Recipe:
    """``auto`` as the concrete recipe for the model's device, with its reason; any other recipe as it is."""
    if recipe.name != "auto":
        return recipe
    device = device_of(model)
    chosen = auto_recipe(native_here(device), _device_name(device))
    scale = chosen.loss_scale if recipe.loss_scale == LossScale() else recipe.loss_scale
    engine = chosen.engine if recipe.engine == "auto" else recipe.engine
    return replace(
        chosen,
        rules=recipe.rules,
        phases=recipe.phases,
        residual=recipe.residual,
        loss_scale=scale,
        weights=recipe.weights,
        moments=recipe.moments,
        engine=engine,
    )


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return {"cpu": "this CPU"}.get(device.type, device.type)


def notes_about(model: nn.Module, recipe: Recipe, state: ConversionState, *, reaches: bool) -> tuple[str, ...]:
    """What is told once at conversion: why ``auto`` chose, what is only emulated, what is left to a session."""
    notes: list[str] = []
    if recipe.reason:
        notes.append(recipe.reason)
    note = emulation_note(model, recipe, state)
    if note is not None:
        notes.append(note)
    low = any(rule.precision is not None for rule in recipe.rules)
    if low and not reaches:
        notes.append(
            f"recipe {recipe.name} gave no layer of this model a cast: all of it runs in {recipe.compute_dtype}"
        )
    narrow = _narrow_parameters(model)
    if narrow and recipe.compute_dtype == "fp32" and not low:
        notes.append(
            f"recipe {recipe.name} leaves products to the parameters' dtype, and {len(narrow)} parameters have 16 bits "
            f"({narrow[0]}{', ...' if len(narrow) > 1 else ''}): their layers do not run in fp32; for an fp32 baseline "
            "call model.float() before the optimizer is built"
        )
    return (*notes, *(_WITHOUT_SESSION + note for note in _left_to_a_session(model, recipe)))


def _narrow_parameters(model: nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if p.dtype in (torch.bfloat16, torch.float16)]


def is_without_session(note: str) -> bool:
    """Whether a note is only for who converts alone: about what a session of ``mixprec.prepare`` does itself.

    Example:
        >>> is_without_session("without a session (mixprec.prepare) nothing scales the loss")
        True
    """
    return note.startswith(_WITHOUT_SESSION)


def _left_to_a_session(model: nn.Module, recipe: Recipe) -> Iterator[str]:
    """What a recipe asks for that a conversion alone does not do, and what to do then."""
    scale = recipe.loss_scale
    if scale.kind != "none":
        device = device_of(model).type
        remedy = {
            "static": f"multiply the loss by {scale.initial:g} and divide the gradients by it",
            "dynamic": f'use torch.amp.GradScaler("{device}", init_scale={scale.initial:g}) in the loop',
        }[scale.kind]
        yield (
            f"nothing scales the loss, as recipe {recipe.name} asks ({scale.kind}, {scale.initial:g}), and small "
            f"gradients become zero: {remedy}"
        )
    if recipe.weights not in ("master", "true"):
        yield (
            f"weights are not kept as recipe {recipe.name} asks ({recipe.weights}): give the loop an optimizer of "
            f"mixprec.optim with weights={recipe.weights!r}"
        )
    if recipe.moments.kind != "fp32":
        yield (
            f"moments are not kept as recipe {recipe.name} asks ({recipe.moments.kind}): give the loop an optimizer of "
            f"mixprec.optim with moments={recipe.moments.kind!r}"
        )
    narrow = _narrow_parameters(model)
    if narrow and recipe.weights == "master":
        yield (
            f"16-bit parameters ({narrow[0]}{', ...' if len(narrow) > 1 else ''}) get no fp32 master, and updates that "
            "are small beside a weight are lost: keep parameters in fp32 (the recipe casts them per use)"
        )
    if recipe.phases:
        yield (
            f"no step is counted, and the phases of recipe {recipe.name} never begin: call "
            "conversion.apply_rules(recipe.at(step, total_steps)) when one is due"
        )


def emulation_note(model: nn.Module, recipe: Recipe, state: ConversionState) -> str | None:
    """What to tell whoever bought an accelerator for its speed, where a recipe is only emulated on it."""
    device = device_of(model)
    low = any(rule.precision is not None for rule in recipe.rules)
    emulated = (low and not state.native_fp8) or (state.is_16bit and not state.native_compute)
    if not emulated or device.type == "cpu":
        return None
    native = ", ".join(native_here(device)) or "none below fp32"
    return f"recipe {recipe.name} on {_device_name(device)}: exact numbers, no gain in speed; native here: {native}"


def kept_dtypes(model: nn.Module) -> dict[str, str]:
    """Floating and complex buffers, and complex parameters, by name: conversion leaves them in their dtype."""
    kept = {
        name: str(buffer.dtype).removeprefix("torch.")
        for name, buffer in model.named_buffers()
        if buffer.is_floating_point() or buffer.is_complex()
    }
    return kept | {name: str(p.dtype).removeprefix("torch.") for name, p in model.named_parameters() if p.is_complex()}
