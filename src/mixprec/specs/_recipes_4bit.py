"""The recipes of 6 and 4 bits, one function each."""

from __future__ import annotations

from ._layer import LayerPrecision
from ._parse import parse_cast
from ._recipe import Recipe
from ._recipe_rules import all_but_the_head
from ._rule import Rule


def mxfp6() -> Recipe:
    """MXFP6 E3M2 for every operand, with the specification's own scale rule.

    Bytes: 0.78 (6.25 bits) per element of a layer's operands.
    Source: Rouhani et al., Microscaling Data Formats for Deep Learning, arXiv:2310.10537.
    Found: GPTs of 20 million to 1.5 billion parameters trained with it lose almost nothing.
    """
    return Recipe(name="mxfp6", rules=all_but_the_head(LayerPrecision.uniform("mxfp6-e3m2")))


def mxfp4() -> Recipe:
    """MXFP4 for every operand, with the specification's own scale rule and rounding to nearest-even.

    The plain format, as a yardstick: published MXFP4 recipes add transforms and stochastic rounding.

    Bytes: 0.53 (4.25 bits) per element of a layer's operands.
    Source: OCP Microscaling Formats (MX) Specification v1.0, section 6.3.
    Found: plain MXFP4 in the backward pass alone costs 345 million parameters a loss of 2.60 instead of 2.49 (Tseng et
    al., arXiv:2502.20586).
    """
    return Recipe(name="mxfp4", rules=all_but_the_head(LayerPrecision.uniform("mxfp4")))


def mxfp4_backward() -> Recipe:
    """bf16 forward; backward in MXFP4: 3/4 of the range, stochastic, after a random Hadamard transform of 64.

    Unbiased: what the ratio takes is given back to the result, and nothing saturates.

    Bytes: 2 per saved activation; 0.53 (4.25 bits) per element of the two backward products' operands.
    Source: Tseng et al., Training LLMs with MXFP4, arXiv:2502.20586.
    Found: validation loss 2.51 against 2.49 of bf16 for 345 million parameters (2.60 without the transform), none lost
    at 1.3 and 6.7 billion.
    """
    precision = LayerPrecision.by_pass(backward="mxfp4 x3/4 sr rht64-fresh")
    return Recipe(name="mxfp4-backward", compute_dtype="bf16", rules=all_but_the_head(precision))


def quartet() -> Recipe:
    """MXFP4 in all three products: forward clipped by a Gaussian's spread, backward stochastic; transforms in both.

    Forward: a Hadamard transform of 32, the power of two at or below the scale that costs a Gaussian least (QuEST),
    nearest-even; what is clipped passes no gradient on. Backward: transforms with fresh signs, 3/4 of the range,
    stochastic. The paper quantizes the forward pass's codes again for the backward products; here these take the values
    themselves.

    Bytes: 0.53 (4.25 bits) per element of a layer's operands, and 1 bit per input for what was clipped.
    Source: Castro et al., Quartet: Native FP4 Training Can Be Optimal for Large Language Models, arXiv:2505.14669.
    Found: loss 3.49 to 3.24 for 30 million parameters on 25 to 200 tokens each, ahead of all other 4-bit recipes tried.
    """
    precision = LayerPrecision.by_pass(forward="mxfp4 quest ht32", backward="mxfp4 x3/4 sr rht32-fresh")
    convolutions = LayerPrecision.uniform("mxfp4")
    return Recipe(name="quartet", rules=all_but_the_head(precision, convolutions=convolutions))


def nvfp4() -> Recipe:
    """NVFP4: weights in 16x16 tiles, the rest in 1x16 blocks; stochastic gradients; wgrad transformed; the end in bf16.

    Both operands of wgrad pass a Hadamard transform of 16 with fixed random signs. The head and the last 15 % of the
    blocks (of seven or more: the last one, two, ...) multiply in bf16.

    Bytes: 0.56 (4.5 bits) per element of a layer's operands; 0.50 (4.03 bits) for weights.
    Source: NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149.
    Found: 12 billion parameters on 10 trillion tokens within 1 to 1.5 % of FP8's loss; plain NVFP4 everywhere diverges.
    """
    precision = LayerPrecision(
        fprop_input=parse_cast("nvfp4"),
        fprop_weight=parse_cast("nvfp4-2d"),
        dgrad_grad_output=parse_cast("nvfp4 sr"),
        dgrad_weight=parse_cast("nvfp4-2d"),
        wgrad_grad_output=parse_cast("nvfp4 sr rht16"),
        wgrad_input=parse_cast("nvfp4 rht16"),
    )
    wide = LayerPrecision.uniform("bf16")
    last = Rule(last_blocks=0.15, precision=wide, required=False)
    return Recipe(name="nvfp4", rules=(last, *all_but_the_head(precision, head=wide)))


def fp4_all_the_way() -> Recipe:
    """NVFP4 for every operand, stochastic where it enters a gradient: both gradients, and the inputs of wgrad.

    The paper ends with a part in which the backward pass is wide, once the gradient's norm falls below sqrt(3) times
    the rounding noise: write it as a phase.

    Bytes: 0.56 (4.5 bits) per element of a layer's operands.
    Source: Chmiel et al., FP4 All the Way, arXiv:2505.19115.
    Found: 7 billion parameters on 200 billion tokens, as good as bf16 in downstream tasks once that last part has
    closed the gap.
    """
    precision = LayerPrecision(
        fprop_input=parse_cast("nvfp4"),
        fprop_weight=parse_cast("nvfp4"),
        dgrad_grad_output=parse_cast("nvfp4 sr"),
        dgrad_weight=parse_cast("nvfp4"),
        wgrad_grad_output=parse_cast("nvfp4 sr"),
        wgrad_input=parse_cast("nvfp4 sr"),
    )
    return Recipe(name="fp4-all-the-way", rules=all_but_the_head(precision))
