"""From a recipe and a model to quantizers of Transformer Engine."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ...planner import Inventory
from ...planner.plan import Plan
from ...specs import OPERANDS, LayerPrecision, Recipe
from .._expression import Call
from .._given import Given
from .._refusals import Refusal, refuse
from .._survey import survey
from ._built_in import built_in_recipe
from ._emission import TransformerEngineEmission, TransformerEngineSetting
from ._layer import quantizers_of

_OFFER = (
    "Transformer Engine's te.Linear has fp8 with one scale per tensor (current or delayed), e4m3 in blocks of 128, "
    "mxfp8 with scales by rceil, and nvfp4, or the compute dtype, each product on its own (recipes fp8, fp8-delayed, "
    "fp8-block, mxfp8 and nvfp4): plan with candidates of these, or leave the sites in the compute dtype (keep, --keep)"
)
_FAST = (
    "On Hopper and Ada, Transformer Engine sums the FP8 products of the forward pass in fewer bits than fp32 by its "
    "own choice; the recipe says fp32."
)
_STOCHASTIC = (
    "mixprec rounds NVFP4 gradients to 16/17 of the range, so that stochastic rounding never saturates; Transformer "
    "Engine uses all of it."
)
_SIGNS = "The signs of NVFP4's Hadamard transforms are Transformer Engine's own."


def emit_transformer_engine(
    model: nn.Module, given: Recipe | Plan, inventory: Inventory, *, keep: Sequence[str] = ()
) -> TransformerEngineEmission:
    """Give what Transformer Engine must be told so that a model trains as a recipe says.

    Layers with casts become ``te.Linear``, named by their paths; everything else stays what it is.

    Args:
        model: not converted; it is only looked at.
        given: a recipe without phases, or a plan, whose reasons are told too.
        inventory: of a training step of the model, from ``mixprec.planner.take_inventory``: calls of functions and
            products of activations are seen by it alone.
        keep: globs of sites that stay in the compute dtype whatever the recipe says.

    Returns:
        Quantizers with the layers of each; ``apply(model)`` replaces the layers, ``make_recipe()`` makes the recipe for
        ``te.autocast``, ``to_source()`` writes both as Python.

    Raises:
        ValueError: Transformer Engine has no way to run some site as asked, with every such site and why; or a recipe
            with phases, a converted model, no casts, a glob that keeps nothing.

    Source: NVIDIA, Transformer Engine documentation, "Fine-grained quantization recipes" (experimental there) and
    "Common API" (https://nvidia.github.io/TransformerEngine/).

    Example:
        >>> import torch
        >>> from mixprec.planner import take_inventory
        >>> from mixprec.specs import recipe
        >>> model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
        >>> found = take_inventory(model, lambda model, x: model(x).sum(), torch.ones(32, 32))
        >>> emission = emit_transformer_engine(model, recipe("mxfp8"), found)
        >>> emission.built_in.function.name, emission.layers
        ('MXFP8BlockScaling', ('0', '2', '4'))
    """
    read = Given.of(given)
    found = survey(model, read.recipe, inventory, keep)
    groups: dict[tuple[Call, Call, Call], list[str]] = {}
    refused = list(found.refused)
    for layer in found.asked:
        quantizers = quantizers_of(layer)
        if isinstance(quantizers, str):
            refused.append(Refusal(site=layer.path, why=quantizers))
        else:
            groups.setdefault(quantizers, []).append(layer.path)
    refuse("Transformer Engine", read.recipe.name, refused, _OFFER)
    precisions = [layer.precision for layer in found.asked]
    return TransformerEngineEmission(
        recipe=read.recipe.name,
        settings=tuple(TransformerEngineSetting(quantizers=q, layers=tuple(layers)) for q, layers in groups.items()),
        built_in=built_in_recipe(precisions),
        wide=found.wide,
        kept=found.kept,
        notes=(*found.notes, *_notes(precisions)),
        reasons=read.reasons,
    )


def _notes(precisions: Sequence[LayerPrecision]) -> list[str]:
    """What Transformer Engine does otherwise than the casts say."""
    casts = [cast for one in precisions for name in OPERANDS if (cast := one.operand(name)) is not None]
    told = {
        _FAST: any(cast.granularity.kind == "tensor" for cast in casts),
        _STOCHASTIC: any(cast.is_stochastic for cast in casts),
        _SIGNS: any(cast.transform for cast in casts),
    }
    return [note for note, holds in told.items() if holds]
