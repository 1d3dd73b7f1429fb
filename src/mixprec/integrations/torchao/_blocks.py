"""Casts in blocks, as the configs of torchao's prototypes for ``quantize_``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...specs import LayerPrecision, recipe
from .._expression import Call, Name
from .._survey import AskedLayer

_TRAINING = "torchao.prototype.moe_training"
_DROPS_BIAS = "which torchao's MXFP8 layers leave out of their output (https://github.com/pytorch/ao/issues/4846)"
_REFUSES_BIAS = "which torchao's Float8BlockwiseLinear does not take"


@dataclass(frozen=True, kw_only=True)
class BlockWay:
    """A way of torchao's to train in blocks.

    Attributes:
        precision: what it computes.
        config: of it; whether emulated.
        multiple: that both feature counts must be of.
        emulates: whether it runs without the device's own products.
        bias: why the layer may not add one; empty where it may.
        remakes_weight: whether the parameter becomes another object, which leaves a tie behind.
    """

    precision: LayerPrecision
    config: Callable[[bool], Call]
    multiple: int
    emulates: bool
    bias: str
    remakes_weight: bool

    def refusal(self, layer: AskedLayer, *, emulate: bool) -> str:
        """Why it cannot have a layer; empty where it can."""
        if emulate and not self.emulates:
            return f"torchao does not emulate '{self.precision.fprop_input}': it needs a GPU that multiplies it"
        if any(size % self.multiple for size in layer.features):
            return (
                f"a feature count of {layer.features} is no multiple of {self.multiple}, which torchao's kernels need"
            )
        if layer.has_bias and self.bias:
            return f"it has a bias, {self.bias}"
        if layer.shares_weight and self.remakes_weight:
            return f"it shares its weight with {layer.shares_weight}, and torchao would make it another parameter"
        return ""


def block_ways() -> tuple[BlockWay, ...]:
    """All that torchao has."""
    found = [
        BlockWay(
            precision=_mxfp8(rule, wide_wgrad=wide),
            config=_mxfp8_config(rule, wide_wgrad=wide),
            multiple=32,
            emulates=True,
            bias=_DROPS_BIAS,
            remakes_weight=True,
        )
        for rule in ("rceil", "floor")
        for wide in (False, True)
    ]
    rows, tiles = "e4m3[1x128:fp32]", "e4m3[128x128:fp32]"
    blockwise = LayerPrecision.of(input=rows, weight=tiles, grad_output=rows)
    nvfp4 = next(rule.precision for rule in reversed(recipe("nvfp4").rules) if rule.precision is not None)
    for precision, config, bias in ((blockwise, _blockwise_config, _REFUSES_BIAS), (nvfp4, _nvfp4_config, "")):
        found.append(
            BlockWay(
                precision=precision,
                config=config,
                multiple=128,
                emulates=False,
                bias=bias,
                remakes_weight=False,
            )
        )
    return tuple(found)


def _mxfp8(rule: str, *, wide_wgrad: bool) -> LayerPrecision:
    uniform = LayerPrecision.uniform(f"mxfp8 {rule}")
    if not wide_wgrad:
        return uniform
    cast = uniform.fprop_input
    return LayerPrecision(fprop_input=cast, fprop_weight=cast, dgrad_grad_output=cast, dgrad_weight=cast)


def _mxfp8_config(rule: str, *, wide_wgrad: bool) -> Callable[[bool], Call]:
    preference = "torchao.quantization.quantize_.common"
    scales = Name(module="torchao.prototype.mx_formats", name=f"ScaleCalculationMode.{rule.upper()}")

    def config(emulate: bool) -> Call:
        kernels = Name(module=preference, name=f"KernelPreference.{'EMULATED' if emulate else 'AUTO'}")
        function = Name(module=f"{_TRAINING}.config", name="MXFP8TrainingOpConfig")
        return Call.of(function, kernel_preference=kernels, wgrad_with_hp=wide_wgrad, scale_calculation_mode=scales)

    return config


def _blockwise_config(emulate: bool) -> Call:
    module = "torchao.prototype.blockwise_fp8_training.linear"
    return Call.of(Name(module=module, name="Float8BlockwiseLinearConfig"))


def _nvfp4_config(emulate: bool) -> Call:
    module = f"{_TRAINING}.nvfp4_training.nvfp4_training"
    return Call.of(Name(module=module, name="NVFP4TrainingConfig"))
