"""The elements of a matrix under their scales."""

from __future__ import annotations

from torch import Tensor

from .._contract import Draw
from .._parameters import CastParameters
from ._choice import Candidate, choose
from ._grid import round_to_grid
from ._philox import element_words
from ._scales import Scales, fp32_quant_scale, largest_magnitude, scales_of, shared_magnitude
from ._tiles import spread


def scaled_elements(
    x: Tensor, parameters: CastParameters, axis: int, words: Tensor | None, amax: Tensor | None = None
) -> tuple[Tensor, Scales]:
    """Elements on the grid, and their scales.

    Args:
        x: fp32 ``[R, C]``, transformed if the cast says so.
        parameters: of the cast.
        axis: that the reduction runs along.
        words: random words in the shape of x, for stochastic rounding.
        amax: what a delayed scale is made for; None: x's own.

    Example:
        >>> import torch
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> mxfp4 = cast_parameters(parse_cast("mxfp4"))
        >>> elements, scales = scaled_elements(torch.tensor([[9.0, 4.0]]), mxfp4, 1, None)
        >>> elements.tolist(), scales.scale.tolist()
        ([[4.0, 2.0]], [[2.0]])
    """
    shared = shared_magnitude(x, parameters, axis) if amax is None else amax
    above = x.new_ones(())
    if parameters.two_level:
        above = fp32_quant_scale(largest_magnitude(x), parameters.target * parameters.scale_limit)

    def candidate(target: float) -> Candidate:
        scales = scales_of(shared, parameters, target, above)
        quant_scale = everywhere(scales.quant_scale, x, parameters, axis)
        elements = round_to_grid(x * quant_scale, parameters.grid, parameters.rounding, words)
        compared = scales.scale if parameters.scale == "float" else scales.outer
        return Candidate(elements=elements, scales=scales, compared=compared)

    first = candidate(parameters.target)
    if not parameters.second_target:
        return first.elements, first.scales
    second = candidate(parameters.second_target)
    return choose(x.double() * above.double(), first, second, parameters.matrix_tile(axis))


def everywhere(values: Tensor, x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    """Numbers that broadcast to the matrix x, from one per tensor, row or tile.

    Example:
        >>> import torch
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> parameters = cast_parameters(parse_cast("e2m1[1x2:e8m0]"))
        >>> everywhere(torch.tensor([[5.0, 6.0]]), torch.zeros(1, 3), parameters, 1).tolist()
        [[5.0, 5.0, 6.0]]
    """
    return spread(values, parameters.matrix_tile(axis), x.shape) if parameters.scaling == "block" else values


def words_for(x: Tensor, parameters: CastParameters, draw: Draw) -> Tensor | None:
    """Random words in the shape of x; None where the cast draws none.

    Example:
        >>> import torch
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> words_for(torch.zeros(2, 3), cast_parameters(parse_cast("bf16 sr")), Draw()).shape
        torch.Size([2, 3])
    """
    if not parameters.stochastic:
        return None
    return element_words(x.numel(), draw.seed, draw.offset, x.device).reshape(x.shape)
