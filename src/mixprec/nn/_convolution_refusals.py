"""Casts that a convolution cannot multiply exactly: one refusal each, with the site's name."""

from __future__ import annotations

from ..specs import OPERANDS
from ._operand_cast import OperandCast, OperandCasts


def refuse_convolution_casts(name: str, casts: OperandCasts, kernel: tuple[int, ...]) -> None:
    """Refuse what a convolution does not do.

    Args:
        name: the site's.
        casts: of the layer, or of the rule that a function call falls under.
        kernel: sizes of the kernel.

    Raises:
        ValueError: naming the site, the operand and what to use.
    """
    if casts.accumulator is not None:
        raise ValueError(
            f"{name}: a rule gives it the accumulator '{casts.accumulator}', which is emulated for matrix products, not for "
            f"convolutions: give Conv{len(kernel)}d a rule of its own"
        )
    for operand in OPERANDS:
        cast: OperandCast | None = getattr(casts, operand)
        problem = "" if cast is None else _problem(operand, cast, len(kernel))
        if cast is not None and problem:
            raise ValueError(
                f"{name}: {operand} is '{cast.text}', {problem}, in a rule with type = \"Conv{len(kernel)}d\""
            )


def _problem(operand: str, cast: OperandCast, dims: int) -> str:
    if cast.has_tile_scales:
        return (
            "whose fp32 block scales vary inside a convolution's sums: use a power of two, such as [1x128:e8m0] rceil"
        )
    if operand in ("fprop_input", "dgrad_grad_output") and cast.is_row and not cast.is_power:
        return (
            "but each position enters several sums of a convolution: use [tensor], blocks, or rows with a power of two, "
            "such as [row:e8m0] rceil"
        )
    if cast.clips:
        return (
            "whose clipping the backward pass of a convolution does not know: use another rule, such as floor or rceil"
        )
    if operand.startswith("wgrad") and cast.transform and dims > 2:
        return "but a transform in wgrad needs a 1-D or 2-D convolution: use a cast without one"
    return ""
