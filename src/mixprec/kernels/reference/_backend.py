"""The reference backend: every operation of the contract in torch operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._contract import Draw, SignKey, Sums, sign_key
from .._optimizer_contract import Rule, Slot, StoredMoment, StoredWeight
from .._out import check_out
from .._parameters import CastParameters
from .._stacked import scaled_stacked
from .._statistics_contract import Probe
from ._codes import decode, encode
from ._elements import everywhere, scaled_elements, words_for
from ._grid import round_to_grid
from ._hadamard import transformed
from ._moments import load_moment, store_moment
from ._narrow import narrow_product
from ._optimizer import step_slot
from ._packing import pack, unpack
from ._scales import Scales, decode_scales, encode_scales, largest_magnitude
from ._squares import sum_of_squares
from ._statistics import take_statistics
from ._weights import load_weight, store_weight


class ReferenceBackend:
    """Written to be read; runs on every device. See `mixprec.kernels.Backend` for what each method gives.

    Only operations whose result IEEE 754 fixes are used: + - * / on fp32 and fp64, integers and bits,
    compare and select. So the result depends on no device, thread count or instruction set.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> x = torch.tensor([[5.0, 0.3]])
        >>> carrier, outer = ReferenceBackend().scaled(x, cast_parameters(parse_cast("mxfp4")), 1, Draw())
        >>> carrier.tolist(), outer.item()
        ([[4.0, 0.5]], 1.0)
    """

    name = "reference"

    def round(self, x: Tensor, parameters: CastParameters, draw: Draw, *, out: Tensor | None = None) -> Tensor:
        """Every element on its own."""
        wide = x.float().contiguous()
        words = words_for(wide, parameters, draw)
        return _into(out, x, round_to_grid(wide, parameters.grid, parameters.rounding, words))

    def scaled(
        self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale."""
        elements, scales = _elements(x, parameters, axis, draw)
        return _into(out, x, _carrier(elements, scales, parameters, axis)), scales.outer

    def scaled_interleaved(
        self, x: Tensor, parameters: CastParameters, axis: int, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale of matrices whose columns alternate."""
        return scaled_stacked(self.scaled, x, parameters, axis, out)

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then along columns."""
        first = self.scaled(x, row, 1, draws[0], out=out[0])
        return *first, *self.scaled(x, column, 0, draws[1], out=out[1])

    def scaled_quantized(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then codes along columns."""
        first = self.scaled(x, row, 1, draws[0], out=out)
        return *first, *self.quantize(x, column, 0, draws[1])

    def delayed(
        self, x: Tensor, parameters: CastParameters, draw: Draw, amax: Tensor, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Carrier, outer scale and amax of a tensor under the scale of a given amax."""
        wide = x.float().contiguous()
        own = largest_magnitude(wide)
        shared = torch.where(amax == 0.0, own, amax)
        elements, scales = scaled_elements(wide, parameters, 1, words_for(wide, parameters, draw), shared)
        return _into(out, x, _carrier(elements, scales, parameters, 1)), scales.outer, own

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude."""
        return largest_magnitude(x.float())

    def hadamard(
        self, x: Tensor, size: int, signs: SignKey | None, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Hadamard transform along an axis."""
        return _into(out, x, transformed(x.float(), size, signs, axis, inverse))

    def quantize(self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Packed codes, codes of the block scales, outer scale."""
        elements, scales = _elements(x, parameters, axis, draw)
        codes = pack(encode(elements, parameters.grid), parameters.grid.bits)
        if _scales_are_coded(parameters):
            return codes, encode_scales(scales.scale, parameters).contiguous(), scales.outer
        return codes, torch.empty(0, dtype=torch.uint8, device=x.device), scales.outer

    def dequantize(
        self,
        codes: Tensor,
        scales: Tensor,
        outer: Tensor | None,
        parameters: CastParameters,
        shape: Sequence[int],
        axis: int,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Values from codes and scales."""
        values = decode(unpack(codes, parameters.grid.bits, shape[1]), parameters.grid)
        if _scales_are_coded(parameters):
            values = values * everywhere(decode_scales(scales, parameters), values, parameters, axis)
        if outer is not None:
            values = values * everywhere(outer, values, parameters, axis)
        return _into(out, codes, values.contiguous())

    def narrow_product(self, a_MK: Tensor, b_KN: Tensor, sums: Sums) -> Tensor:
        """``a @ b`` with a narrow accumulator."""
        return narrow_product(a_MK.float(), b_KN.float(), sums)

    def statistics(self, x: Tensor, probes: Sequence[Probe], axis: int) -> tuple[Tensor, Tensor]:
        """Counts and numbers of a tensor and of casts of it."""
        return take_statistics(x, probes, axis)

    def gradient_squares(self, gradients: Sequence[Tensor]) -> Tensor:
        """Sum of squares of each gradient."""
        return torch.stack([sum_of_squares(gradient) for gradient in gradients])

    def optimizer_step(self, slots: Sequence[Slot], rule: Rule) -> None:
        """Update every slot's weight and moments."""
        for slot in slots:
            step_slot(slot, rule)

    def load_weight(self, stored: StoredWeight) -> Tensor:
        """The fp32 value of a weight."""
        return load_weight(stored)

    def store_weight(self, stored: StoredWeight, value: Tensor, draw: Draw) -> None:
        """Keep an fp32 value."""
        store_weight(stored, value, draw)

    def load_moment(self, stored: StoredMoment) -> Tensor:
        """The fp32 values of a moment."""
        return load_moment(stored)

    def store_moment(self, stored: StoredMoment, value: Tensor) -> None:
        """Keep fp32 values."""
        store_moment(stored, value)


def _elements(x: Tensor, parameters: CastParameters, axis: int, draw: Draw) -> tuple[Tensor, Scales]:
    """Elements on the grid and their scales."""
    wide = x.float()
    if parameters.transform:
        wide = transformed(wide, parameters.transform, sign_key(parameters, draw), axis, inverse=False)
    return scaled_elements(wide, parameters, axis, words_for(wide, parameters, draw))


def _carrier(elements: Tensor, scales: Scales, parameters: CastParameters, axis: int) -> Tensor:
    return (elements * everywhere(scales.scale, elements, parameters, axis)).contiguous()


def _scales_are_coded(parameters: CastParameters) -> bool:
    return parameters.scaling == "block" and parameters.scale != "fp32"


def _into(out: Tensor | None, x: Tensor, result: Tensor) -> Tensor:
    return result if out is None else check_out(x, out, result.shape).copy_(result)
