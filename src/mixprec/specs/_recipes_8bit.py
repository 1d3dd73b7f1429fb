"""The recipes of 8 bits, one function each."""

from __future__ import annotations

from ._layer import LayerPrecision
from ._parse import parse_cast
from ._recipe import Recipe
from ._recipe_rules import all_but_the_head


def fp8() -> Recipe:
    """E4M3 for inputs and weights, E5M2 for gradients, one scale per tensor from its current amax.

    Bytes: 1 per element of a layer's operands.
    Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433.
    Found: 16 bits' perplexity up to 175 billion parameters; without scales 12.59 instead of 10.19.
    """
    precision = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]")
    return Recipe(name="fp8", rules=all_but_the_head(precision))


def fp8_delayed() -> Recipe:
    """As fp8, with each scale from the largest amax of the last 1024 passes.

    A scale that is known beforehand spares a pass over the tensor. What outgrows its history saturates for one pass.

    Bytes: 1 per element of a layer's operands.
    Source: NVIDIA Transformer Engine, DelayedScaling with Format.HYBRID and its defaults.
    Found: outliers that SwiGLU grows late in long trainings break it (Fishman et al., Scaling FP8 training to
    trillion-token LLMs, arXiv:2409.12517).
    """
    precision = LayerPrecision.of(
        input="e4m3[tensor] delayed", weight="e4m3[tensor] delayed", grad_output="e5m2[tensor] delayed"
    )
    return Recipe(name="fp8-delayed", rules=all_but_the_head(precision))


def fp8_rowwise() -> Recipe:
    """E4M3 for every operand, one power of two as scale per row of each product's operand.

    An outlier spoils one row instead of the tensor.

    Bytes: 1 per element of a layer's operands.
    Source: torchao, Float8LinearRecipeName.ROWWISE.
    Found: 10 % faster than bf16 for Llama 3 8B on H100, and more accurate than one scale per tensor.
    """
    return Recipe(name="fp8-rowwise", rules=all_but_the_head(LayerPrecision.uniform("e4m3[row:e8m0] rceil")))


def fp8_rowwise_gw_hp() -> Recipe:
    """As fp8-rowwise, with the weight's gradient in the compute dtype and one scale per tensor for dgrad's weight.

    Bytes: 1 per element of the operands of fprop and dgrad; wgrad reads what the compute dtype holds.
    Source: torchao, Float8LinearRecipeName.ROWWISE_WITH_GW_HP.
    Found: the most accurate of torchao's float8 recipes.
    """
    row = parse_cast("e4m3[row:e8m0] rceil")
    precision = LayerPrecision(
        fprop_input=row,
        fprop_weight=row,
        dgrad_grad_output=row,
        dgrad_weight=parse_cast("e4m3[tensor:e8m0] rceil"),
    )
    return Recipe(name="fp8-rowwise-gw-hp", rules=all_but_the_head(precision))


def fp8_block() -> Recipe:
    """E4M3 for every operand: inputs and gradients in 1x128 blocks, weights in 128x128, scales powers of two.

    The powers of two are those of NVIDIA Transformer Engine's Float8BlockScaling; ``[1x128:fp32]`` has exact scales,
    whose product is emulated in pieces of the reduction.

    Bytes: 1 (8.06 bits) per element of a layer's operands.
    Source: DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv:2412.19437.
    Found: within 0.25 % of bf16's loss; tiles of 128x128 for gradients diverged.
    """
    rows, tiles = "e4m3[1x128:e8m0] rceil", "e4m3[128x128:e8m0] rceil"
    precision = LayerPrecision.of(input=rows, weight=tiles, grad_output=rows)
    return Recipe(name="fp8-block", rules=all_but_the_head(precision))


def mxfp8() -> Recipe:
    """MXFP8 E4M3 for every operand, gradients too, with the scale rounded up so that nothing saturates.

    Bytes: 1.03 (8.25 bits) per element of a layer's operands.
    Source: Mishra et al., Recipes for Pre-training LLMs with MXFP8, arXiv:2506.08027; the format: OCP Microscaling
    Formats (MX) Specification v1.0.
    Found: 8 billion parameters on 15 trillion tokens as bf16, where the specification's own rule (floor) can diverge.
    """
    return Recipe(name="mxfp8", rules=all_but_the_head(LayerPrecision.uniform("mxfp8 rceil")))


def int8() -> Recipe:
    """INT8 for every operand, one scale per row (of a convolution: per tensor); gradients rounded stochastically.

    Sums of integers are exact.

    Bytes: 1 per element of a layer's operands.
    Source: torchao, prototype int8 mixed-precision training (rows scaled by their amax); stochastic gradients: Zhu et
    al., Towards Unified INT8 Training, arXiv:1912.12607.
    Found: gradients are the operand that suffers (Zhu et al.).
    """
    precision = LayerPrecision.of(input="int8[row]", weight="int8[row]", grad_output="int8[row] sr")
    convolutions = LayerPrecision.of(input="int8[tensor]", weight="int8[tensor]", grad_output="int8[tensor] sr")
    return Recipe(name="int8", rules=all_but_the_head(precision, convolutions=convolutions))
