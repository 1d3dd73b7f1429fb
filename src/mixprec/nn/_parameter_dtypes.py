"""Parameters of 16 bits that the activations of a recipe do not meet."""

from __future__ import annotations

import torch
from torch import nn

from ..specs import Recipe
from ._class_swap import base_class
from ._layer_types import LAYER_TYPES
from ._matching import Matched

_HALF = (torch.bfloat16, torch.float16)
_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def refuse_parameter_dtypes(model: nn.Module, recipe: Recipe, matched: Matched, compute: torch.dtype) -> None:
    """Refuse modules of torch that would be given activations of another dtype than their own.

    Layers with casts, and under a 16-bit recipe all registered ones, take weights of any dtype; embeddings have no
    activations. What a module of the user's own does with its parameters is not known. A recipe that leaves a model as
    it is gives nobody anything.

    Raises:
        ValueError: naming the first such module.
    """
    if compute == torch.float32 and all(rule.precision is None for rule in recipe.all_rules):
        return
    for name, module in model.named_modules():
        found = _half_parameter(module, compute)
        if found is None or name in matched.alone or _takes_any(name, module, matched, compute):
            continue
        raise ValueError(
            f"{name or 'the model'} ({base_class(module).__name__}) has {_NAMES[found]} parameters, and under recipe "
            f"{recipe.name} its input is {recipe.compute_dtype}: expected fp32 parameters, or such of the compute "
            f"dtype; call model.float() before the optimizer is built, or take {_way_out(recipe, _NAMES[found])}"
        )


def _way_out(recipe: Recipe, dtype: str) -> str:
    has_casts = any(rule.precision is not None for rule in recipe.all_rules)
    return f"mixprec.recipe({recipe.name!r}, compute_dtype={dtype!r})" if has_casts else f"the recipe {dtype!r}"


def _half_parameter(module: nn.Module, compute: torch.dtype) -> torch.dtype | None:
    """The 16-bit dtype of a module's own parameters, if that is not the compute dtype."""
    if not base_class(module).__module__.startswith("torch.nn.modules"):
        return None
    dtypes = [p.dtype for p in module.parameters(recurse=False) if p.dtype in _HALF and p.dtype != compute]
    return dtypes[0] if dtypes else None


def _takes_any(name: str, module: nn.Module, matched: Matched, compute: torch.dtype) -> bool:
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return True
    if base_class(module) not in LAYER_TYPES:
        return False
    rule = matched.rules.get(name)
    return compute != torch.float32 or (rule is not None and rule.precision is not None)
