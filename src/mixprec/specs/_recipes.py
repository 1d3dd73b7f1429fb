"""The named recipes: their registry and their look-up."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, Unpack, cast

from ..formats import unknown_name
from . import _recipes_4bit, _recipes_8bit, _recipes_16bit
from ._loss_scale import LossScale
from ._moments import Moments, parse_moments
from ._phase import Phase
from ._recipe import ComputeDtype, Engine, Recipe, Weights, resolve_residual
from ._rule import Rule


class RecipeOverrides(TypedDict, total=False):
    """What ``recipe`` may change; ``residual`` takes the compute dtype's own name too, ``moments`` a kind's."""

    name: str
    rules: tuple[Rule, ...]
    compute_dtype: ComputeDtype
    residual: str
    loss_scale: LossScale
    weights: Weights
    moments: Moments | str
    engine: Engine
    phases: tuple[Phase, ...]
    reason: str


_RECIPES: Mapping[str, Callable[[], Recipe]] = MappingProxyType(
    {
        "auto": _recipes_16bit.auto_placeholder,
        "fp32": _recipes_16bit.fp32,
        "bf16": _recipes_16bit.bf16,
        "fp16": _recipes_16bit.fp16,
        "bf16-true": _recipes_16bit.bf16_true,
        "bf16-sr": _recipes_16bit.bf16_sr,
        "bf16-kahan": _recipes_16bit.bf16_kahan,
        "bf16-split": _recipes_16bit.bf16_split,
        "fp8": _recipes_8bit.fp8,
        "fp8-delayed": _recipes_8bit.fp8_delayed,
        "fp8-rowwise": _recipes_8bit.fp8_rowwise,
        "fp8-rowwise-gw-hp": _recipes_8bit.fp8_rowwise_gw_hp,
        "fp8-block": _recipes_8bit.fp8_block,
        "mxfp8": _recipes_8bit.mxfp8,
        "int8": _recipes_8bit.int8,
        "mxfp6": _recipes_4bit.mxfp6,
        "mxfp4": _recipes_4bit.mxfp4,
        "mxfp4-backward": _recipes_4bit.mxfp4_backward,
        "quartet": _recipes_4bit.quartet,
        "nvfp4": _recipes_4bit.nvfp4,
        "fp4-all-the-way": _recipes_4bit.fp4_all_the_way,
    }
)


def recipe_names() -> tuple[str, ...]:
    """Give the names that ``recipe`` knows.

    Example:
        >>> recipe_names()[:3]
        ('auto', 'fp32', 'bf16')
    """
    return tuple(_RECIPES)


def recipe_function(name: str) -> Callable[[], Recipe]:
    """Give the function that makes a named recipe.

    Raises:
        ValueError: an unknown name.
    """
    if name not in tuple(_RECIPES):  # what is no text is told as it is
        raise unknown_name("recipe", name, _RECIPES)
    return _RECIPES[name]


def recipe(name: str, /, **overrides: Unpack[RecipeOverrides]) -> Recipe:
    """Give a named recipe, with some of its fields changed.

    ``recipe_names()`` lists the names; ``describe_recipe(name)``, `mixprec recipes NAME --about` and docs/recipes.md
    tell what each is, what it keeps in bytes, where it comes from and what was found there.

    Args:
        name: one of ``recipe_names()``. ``"auto"`` is a placeholder of that name until ``prepare`` or
            ``auto_recipe`` has seen the device.
        **overrides: fields of ``Recipe``. ``residual`` may be the compute dtype's name, ``moments`` a kind's
                (``"bf16"``).

    Raises:
        ValueError: an unknown name, or a value that does not fit.

    Example:
        >>> recipe("mxfp8", compute_dtype="bf16").compute_dtype
        'bf16'
    """
    base = recipe_function(name)()
    changes: dict[str, Any] = dict(overrides)
    known = list(RecipeOverrides.__annotations__)
    for key in changes:
        if key not in known:
            raise unknown_name("recipe field", key, known)
    if name == "auto" and "compute_dtype" in changes:
        raise ValueError(
            f"recipe 'auto' chooses the compute dtype by the device, got compute_dtype={changes['compute_dtype']!r}: "
            "leave it out, or name the recipe bf16, fp16 or fp32"
        )
    compute_dtype = changes.get("compute_dtype", base.compute_dtype)
    if "residual" in changes:
        changes["residual"] = resolve_residual(changes["residual"], compute_dtype)
    if isinstance(changes.get("moments"), str):
        changes["moments"] = parse_moments(changes["moments"])
    return replace(base, **changes)


def auto_recipe(native: Collection[str], device: str) -> Recipe:
    """Choose between the 16-bit recipes by what a device multiplies natively.

    Args:
        native: names of the formats that the device multiplies at more than fp32's rate.
        device: what to call the device in the reason.

    Returns:
        ``bf16`` where native, else ``fp16`` where native, else ``bf16`` emulated; ``reason`` says why.

    Example:
        >>> auto_recipe(["fp16"], "Tesla V100").reason
        'auto: Tesla V100 multiplies fp16 natively, but not bf16'
    """
    if "bf16" in native:
        return recipe("bf16", reason=f"auto: {device} multiplies bf16 natively")
    if "fp16" in native:
        return recipe("fp16", reason=f"auto: {device} multiplies fp16 natively, but not bf16")
    reason = f"auto: {device} multiplies neither bf16 nor fp16 natively; bf16 is emulated and needs no loss scale"
    return recipe("bf16", engine="emulated", reason=reason)


def load_recipe(name_or_path: str | os.PathLike[str]) -> Recipe:
    """Give a recipe by its name, or read one from a TOML file.

    Args:
        name_or_path: one of ``recipe_names()``, else a path. A name wins over a file of the same name:
            write ``./bf16`` for such a file.

    Raises:
        OSError: the file cannot be read.
        TypeError: neither a text nor a path.
        ValueError: neither a recipe's name nor a path; a file that is not UTF-8, not TOML or no recipe.

    Example:
        >>> load_recipe("nvfp4").name
        'nvfp4'
    """
    if not isinstance(cast("object", name_or_path), str | os.PathLike):
        raise TypeError(
            f"recipe is {name_or_path!r} ({type(name_or_path).__name__}), expected a name or the path of a TOML file"
        )
    text = os.fspath(name_or_path)
    if text in _RECIPES:
        return recipe(text)
    path = Path(text)
    if path.suffix != ".toml" and len(path.parts) < 2 and not text.startswith(".") and not (text and path.exists()):
        raise unknown_name("recipe", text, [*_RECIPES, "a path to a .toml file"])
    try:
        return Recipe.from_toml(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"recipe file '{path}' is not UTF-8 text: {error}") from error
    except FileNotFoundError as error:
        message = f"no recipe file at '{path}': give a path to a .toml file or one of {', '.join(_RECIPES)}"
        raise FileNotFoundError(message) from error
    except ValueError as error:
        raise ValueError(f"recipe file '{path}': {error}") from error
