"""The reference backend: every operation of the contract in torch operations."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .._contract import CastParameters
from .._out import check_out
from ._grid import decode, encode, round_to_grid
from ._hadamard import hadamard_rows
from ._packing import pack, unpack
from ._philox import element_words
from ._scales import Scales, block_scales, largest_magnitude, scales_of


class ReferenceBackend:
    """Written to be read; runs on every device. See `mixprec.kernels.Backend` for what each method gives.

    Only operations whose result IEEE 754 fixes are used: + - * / on fp32 and fp64, integers and bits,
    compare and select. So the result depends on no device, thread count or instruction set.

    Example:
        >>> import torch
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels._contract import cast_parameters
        >>> x = torch.tensor([[5.0, 0.3]])
        >>> carrier, outer = ReferenceBackend().scaled(x, cast_parameters(parse_cast("mxfp4")), 1, 0, 0)
        >>> carrier.tolist(), outer.item()
        ([[4.0, 0.5]], 1.0)
    """

    name = "reference"

    def round(
        self, x: Tensor, parameters: CastParameters, seed: int, offset: int, *, out: Tensor | None = None
    ) -> Tensor:
        """Every element on its own."""
        wide = x.float().contiguous()
        return _into(out, round_to_grid(wide, parameters, _words(wide, parameters, seed, offset)))

    def scaled(
        self,
        x: Tensor,
        parameters: CastParameters,
        axis: int,
        seed: int,
        offset: int,
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale."""
        elements, scales = _quantized_rows(x, parameters, axis, seed, offset)
        return _into(out, _layout(elements * scales.scale, axis)), _layout(scales.outer, axis)

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        seed: int,
        offset: int,
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then along columns."""
        first = self.scaled(x, row, 1, seed, offset, out=out[0])
        return *first, *self.scaled(x, column, 0, seed, offset + 1, out=out[1])

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude."""
        return largest_magnitude(x.float())

    def hadamard(
        self, x: Tensor, size: int, signs: bool, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Hadamard transform along an axis."""
        return _into(out, _layout(hadamard_rows(_layout(x.float(), axis), size, signs, inverse), axis))

    def quantize(
        self, x: Tensor, parameters: CastParameters, axis: int, seed: int, offset: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Packed codes, codes of the block scales, outer scale."""
        elements, scales = _quantized_rows(x, parameters, axis, seed, offset)
        codes = pack(encode(elements, parameters), parameters.bits)
        return codes, scales.codes, _layout(scales.outer, axis)

    def dequantize(
        self,
        codes: Tensor,
        scales: Tensor,
        outer: Tensor,
        parameters: CastParameters,
        shape: Sequence[int],
        axis: int,
    ) -> Tensor:
        """Values from codes and scales."""
        rows, columns = shape if axis == 1 else (shape[1], shape[0])
        values = decode(unpack(codes, parameters.bits, columns), parameters)
        if parameters.scaling in ("mx", "two-level"):
            values = values * block_scales(scales, parameters, rows, columns)
        return _layout(values, axis) * outer


def _quantized_rows(x: Tensor, parameters: CastParameters, axis: int, seed: int, offset: int) -> tuple[Tensor, Scales]:
    """Elements on the grid and their scales, in the layout where the reduction runs along rows."""
    rows = _layout(x.float(), axis)
    if parameters.transform:
        rows = hadamard_rows(rows, parameters.transform, parameters.random_signs)
    scales = scales_of(rows, parameters)
    # Random words are counted in the [R, C] layout, which is not that of ``rows`` when axis is 0.
    words = _words(_layout(rows, axis), parameters, seed, offset)
    words = None if words is None else _layout(words, axis)
    return round_to_grid(rows * scales.quant_scale, parameters, words), scales


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    return result if out is None else check_out(result, out, result.shape).copy_(result)


def _layout(x: Tensor, axis: int) -> Tensor:
    """To or from the layout where the reduction runs along rows; contiguous. 0-d tensors stay."""
    return x.contiguous() if axis == 1 or x.ndim == 0 else x.T.contiguous()


def _words(x: Tensor, parameters: CastParameters, seed: int, offset: int) -> Tensor | None:
    """Random words in the shape of x, if the cast needs them."""
    if not parameters.stochastic:
        return None
    return element_words(x.numel(), seed, offset, x.device).reshape(x.shape)
