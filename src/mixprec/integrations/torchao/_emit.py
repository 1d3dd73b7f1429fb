"""From a recipe and a model to configs of torchao."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ...planner import Inventory
from ...planner.plan import Plan
from ...specs import OPERANDS, LayerPrecision, Recipe
from .._expression import Call
from .._given import Given
from .._refusals import Refusal, refuse
from .._survey import AskedLayer, survey
from ._blocks import BlockWay, block_ways
from ._emission import TorchaoEmission, TorchaoSetting
from ._float8 import MULTIPLE, float8_config, is_float8

_OFFER = (
    "torchao trains nn.Linear modules in fp8 with one scale per tensor or row (recipes fp8, fp8-rowwise and "
    "fp8-rowwise-gw-hp), in mxfp8 without biases, in nvfp4 as the recipe nvfp4 has it, and in e4m3 with fp32 scales of "
    "blocks of 128: plan with candidates of these, or leave the sites in the compute dtype (keep, --keep)"
)
_STOCHASTIC = (
    "mixprec rounds NVFP4 gradients to 16/17 of the range, so that stochastic rounding never saturates; torchao uses "
    "all of it. The signs of its Hadamard transforms are drawn by itself."
)


def emit_torchao(
    model: nn.Module, given: Recipe | Plan, inventory: Inventory, *, keep: Sequence[str] = (), emulate: bool = False
) -> TorchaoEmission:
    """Give what torchao must be told so that a model trains as a recipe says.

    Args:
        model: not converted; it is only looked at.
        given: a recipe without phases, or a plan, whose reasons are told too.
        inventory: of a training step of the model, from ``mixprec.planner.take_inventory``: calls of functions and
            products of activations are seen by it alone.
        keep: globs of sites that stay in the compute dtype whatever the recipe says.
        emulate: have torchao multiply in a wider dtype, where it can: for machines without the formats. Slow.

    Returns:
        Configs with the layers of each; ``apply(model)`` converts, ``to_source()`` writes it as Python.

    Raises:
        ValueError: torchao has no way to run some site as asked, with every such site and why; or a recipe with
            phases, a converted model, no casts, a glob that keeps nothing.

    Source: torchao 0.18, ``torchao.float8.convert_to_float8_training`` and ``Float8LinearConfig``
    (https://docs.pytorch.org/ao/stable/), and the prototypes ``MXFP8TrainingOpConfig``, ``NVFP4TrainingConfig`` and
    ``Float8BlockwiseLinearConfig`` for ``torchao.quantization.quantize_``.

    Example:
        >>> import torch
        >>> from mixprec.planner import take_inventory
        >>> from mixprec.specs import recipe
        >>> model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        >>> found = take_inventory(model, lambda model, x: model(x).sum(), torch.ones(16, 32))
        >>> emission = emit_torchao(model, recipe("fp8"), found, keep=["4"])
        >>> [(setting.config.function.name, setting.layers) for setting in emission.settings]
        [('Float8LinearConfig', ('0', '2'))]
    """
    read = Given.of(given)
    found = survey(model, read.recipe, inventory, keep)
    ways = block_ways()
    configs: dict[Call, list[str]] = {}
    refused = list(found.refused)
    for layer in found.asked:
        config = _config_of(layer, ways, emulate=emulate)
        if isinstance(config, str):
            refused.append(Refusal(site=layer.path, why=config))
        else:
            configs.setdefault(config, []).append(layer.path)
    refuse("torchao", read.recipe.name, refused, _OFFER)
    is_stochastic = any(_rounds(layer) for layer in found.asked)
    return TorchaoEmission(
        recipe=read.recipe.name,
        settings=tuple(TorchaoSetting(config=config, layers=tuple(layers)) for config, layers in configs.items()),
        wide=found.wide,
        kept=found.kept,
        notes=(*found.notes, *((_STOCHASTIC,) if is_stochastic else ())),
        reasons=read.reasons,
    )


def _rounds(layer: AskedLayer) -> bool:
    cast = layer.precision.wgrad_grad_output
    return cast is not None and cast.is_stochastic


def _config_of(layer: AskedLayer, ways: Sequence[BlockWay], *, emulate: bool) -> Call | str:
    """The config of a layer, or why there is none."""
    if layer.precision.accumulator is not None:
        return f"its sums are narrow ({layer.precision.accumulator}), which is an emulation of mixprec's"
    if is_float8(layer.precision):
        if any(size % MULTIPLE for size in layer.features):
            return f"a feature count of {layer.features} is no multiple of {MULTIPLE}, which torch._scaled_mm needs"
        return float8_config(layer.precision, emulate=emulate)
    for way in ways:
        if way.precision == layer.precision:
            return way.refusal(layer, emulate=emulate) or way.config(emulate)
    return f"torchao has no such casts: {_told(layer.precision)}"


def _told(precision: LayerPrecision) -> str:
    """The casts of a layer in short: one for all, or by operand."""
    if precision.is_uniform:
        return f"'{precision.fprop_input}' for every operand"
    return ", ".join(f"{name} '{cast}'" for name in OPERANDS if (cast := precision.operand(name)) is not None)
