"""The named recipes, one function each, and their look-up."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from ..formats import unknown_name
from ._layer import LayerPrecision
from ._parse import parse_cast
from ._recipe import ComputeDtype, Engine, LossScale, Recipe, Rule, Weights, resolve_residual

# A model's head is the layer that suffers most: the published recipes of 8 bits and fewer all leave it out.
_HEADS = ("*head", "*head.*", "*classifier", "*classifier.*")


class RecipeOverrides(TypedDict, total=False):
    """What ``recipe`` may change; ``residual`` takes the compute dtype's own name too."""

    name: str
    rules: tuple[Rule, ...]
    compute_dtype: ComputeDtype
    residual: str
    loss_scale: LossScale
    weights: Weights
    engine: Engine
    reason: str


def fp32_recipe() -> Recipe:
    """Everything in fp32: the baseline. 4 bytes per saved activation, 4 per weight."""
    return Recipe(name="fp32")


def bf16_recipe() -> Recipe:
    """Mixed bf16: fp32 weights, cast per use; products, activations in bf16; no loss scale.

    2 bytes per saved activation (4 in the residual stream), 4 per weight.
    Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, arXiv:1905.12322.
    """
    return Recipe(name="bf16", compute_dtype="bf16")


def fp16_recipe() -> Recipe:
    """Mixed fp16: fp32 weights, cast per use; products, activations in fp16; dynamic loss scale.

    2 bytes per saved activation (4 in the residual stream), 4 per weight.
    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740.
    """
    return Recipe(name="fp16", compute_dtype="fp16", loss_scale=LossScale(kind="dynamic"))


def bf16_true_recipe() -> Recipe:
    """Everything in bf16, weights included and without a master: updates below 2**-9 of a weight are lost.

    2 bytes per saved activation, 2 per weight.
    Source of the warning: Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192.
    """
    return Recipe(name="bf16-true", compute_dtype="bf16", residual="compute", weights="true")


def fp8_recipe() -> Recipe:
    """E4M3 for inputs and weights, E5M2 for gradients, one scale per tensor from its current amax.

    1 byte per operand of a linear layer, in each product.
    Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433.
    """
    precision = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]")
    return Recipe(name="fp8", rules=_linear_rules(precision))


def mxfp8_recipe() -> Recipe:
    """MXFP8 E4M3 for every operand, gradients too, with the scale rounded up so that nothing saturates.

    1.03 bytes (8.25 bits) per operand of a linear layer, in each product.
    Source: Mishra et al., Recipes for Pre-training LLMs with MXFP8, arXiv:2506.08027; the format: OCP
    Microscaling Formats (MX) Specification v1.0.
    """
    return Recipe(name="mxfp8", rules=_linear_rules(LayerPrecision.uniform("mxfp8 rceil")))


def mxfp4_recipe() -> Recipe:
    """MXFP4 for every operand, with the specification's own scale rule and rounding to nearest-even.

    The plain format, as a yardstick: published MXFP4 recipes add transforms and stochastic rounding.
    0.53 bytes (4.25 bits) per operand of a linear layer, in each product.
    Source: OCP Microscaling Formats (MX) Specification v1.0, section 6.3.
    """
    return Recipe(name="mxfp4", rules=_linear_rules(LayerPrecision.uniform("mxfp4")))


def nvfp4_recipe() -> Recipe:
    """NVFP4: weights in 16x16 tiles, the rest in 1x16 blocks; stochastic gradients; wgrad transformed.

    Both operands of wgrad pass a Hadamard transform of 16 with fixed random signs. The source also keeps
    some 15 % of the linear layers (mostly the last blocks) in high precision: add rules for them in front.
    0.56 bytes (4.5 bits) per operand of a linear layer, in each product; 0.50 (4.03 bits) for weights.
    Source: NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149.
    """
    precision = LayerPrecision(
        fprop_input=parse_cast("nvfp4"),
        fprop_weight=parse_cast("nvfp4-2d"),
        dgrad_grad_output=parse_cast("nvfp4 sr"),
        dgrad_weight=parse_cast("nvfp4-2d"),
        wgrad_grad_output=parse_cast("nvfp4 sr rht16"),
        wgrad_input=parse_cast("nvfp4 rht16"),
    )
    return Recipe(name="nvfp4", rules=_linear_rules(precision))


def auto_placeholder() -> Recipe:
    """What runs natively here: bf16, else fp16, else emulated bf16. ``auto_recipe`` decides, per device."""
    return Recipe(name="auto", compute_dtype="bf16")


_RECIPES: Mapping[str, Callable[[], Recipe]] = MappingProxyType(
    {
        "auto": auto_placeholder,
        "fp32": fp32_recipe,
        "bf16": bf16_recipe,
        "fp16": fp16_recipe,
        "bf16-true": bf16_true_recipe,
        "fp8": fp8_recipe,
        "mxfp8": mxfp8_recipe,
        "mxfp4": mxfp4_recipe,
        "nvfp4": nvfp4_recipe,
    }
)


def recipe_names() -> tuple[str, ...]:
    """Give the names that ``recipe`` knows.

    Example:
        >>> recipe_names()[:3]
        ('auto', 'fp32', 'bf16')
    """
    return tuple(_RECIPES)


def recipe(name: str, /, **overrides: Unpack[RecipeOverrides]) -> Recipe:
    """Give a named recipe, with some of its fields changed.

    Args:
        name: one of ``recipe_names()``. ``"auto"`` is a placeholder of that name until ``prepare`` or
            ``auto_recipe`` has seen the device.
        **overrides: fields of ``Recipe``. ``residual`` may be the compute dtype's name. Where
            ``compute_dtype="fp16"`` is asked of a recipe without a loss scale and none is given, it gets a
            dynamic one, since fp16 loses gradients without.

    Raises:
        ValueError: an unknown name, or a value that does not fit.

    Example:
        >>> recipe("mxfp8", compute_dtype="bf16").compute_dtype
        'bf16'
    """
    make = _RECIPES.get(name)
    if make is None:
        raise unknown_name("recipe", name, _RECIPES)
    base = make()
    changes: dict[str, Any] = dict(overrides)
    known = list(RecipeOverrides.__annotations__)
    for key in changes:
        if key not in known:
            raise unknown_name("recipe field", key, known)
    compute_dtype = changes.get("compute_dtype", base.compute_dtype)
    if "residual" in changes:
        changes["residual"] = resolve_residual(changes["residual"], compute_dtype)
    if compute_dtype == "fp16" and base.loss_scale.kind == "none":
        changes.setdefault("loss_scale", LossScale(kind="dynamic"))
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
        ValueError: neither a recipe's name nor a path; a file that is not UTF-8, not TOML or no recipe.

    Example:
        >>> load_recipe("nvfp4").name
        'nvfp4'
    """
    text = os.fspath(name_or_path)
    if text in _RECIPES:
        return recipe(text)
    path = Path(text)
    if path.suffix != ".toml" and len(path.parts) < 2 and not text.startswith(".") and not path.exists():
        raise unknown_name("recipe", text, [*_RECIPES, "a path to a .toml file"])
    try:
        return Recipe.from_toml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"recipe file '{path}' is not UTF-8 text: {error}") from error
    except FileNotFoundError as error:
        message = f"no recipe file at '{path}': give a path to a .toml file or one of {', '.join(_RECIPES)}"
        raise FileNotFoundError(message) from error
    except ValueError as error:
        raise ValueError(f"recipe file '{path}': {error}") from error


def _linear_rules(precision: LayerPrecision) -> tuple[Rule, ...]:
    """Heads stay in the compute dtype, every other linear layer gets the precision."""
    heads = tuple(Rule(match=glob, required=False) for glob in _HEADS)
    return (*heads, Rule(type="Linear", precision=precision, required=False))
