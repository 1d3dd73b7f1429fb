"""The CPU backend: allocates results and calls the compiled kernels on their addresses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._contract import Draw, SignKey, Sums, sign_key
from .._optimizer_contract import Kept, Rule, Slot, StoredMoment, StoredWeight
from .._out import check_out
from .._parameters import CastParameters
from .._shapes import empty_codes, empty_outer, rounded_shape
from .._stacked import scaled_stacked
from .._statistics_contract import Probe
from . import _native
from ._levels import LevelName, native_level
from ._plan import native_cast
from ._statistics import take_statistics
from ._steps import DTYPES, NativeSteps, moment_places, native_rule, native_step, straight_gradients, weight_places

_WORD = 2**64
_LARGE_RESULT = 2**23  # bytes; measured: from about here on, first touches in large pages are quicker


class CpuBackend:
    """Compiled kernels. See `mixprec.kernels.Backend` for what each method gives.

    Runs on ``torch.get_num_threads()`` threads; the numbers depend on neither their count nor the level, nor on
    ``torch.set_flush_denormal``. A tensor that is not contiguous is copied first.

    Args:
        level: the instruction set, one of `level_names()`; by default the best that the CPU has.

    Raises:
        ValueError: the CPU or the build lacks ``level``.

    Example:
        >>> from mixprec.specs import parse_cast
        >>> from mixprec.kernels import Draw, cast_parameters
        >>> e2m1 = cast_parameters(parse_cast("e2m1"))
        >>> CpuBackend().round(torch.tensor([0.3, -2.5, 5.0, 100.0]), e2m1, Draw()).tolist()
        [0.5, -2.0, 4.0, 6.0]
    """

    name = "cpu"

    def __init__(self, level: LevelName | None = None) -> None:
        self._level = native_level(level)

    def round(self, x: Tensor, parameters: CastParameters, draw: Draw, *, out: Tensor | None = None) -> Tensor:
        """Every element on its own; into ``out`` (fp32, contiguous, no part of x) if given."""
        x = x.contiguous()
        carrier, outer = _result(x, x.shape, out), torch.empty((), dtype=torch.float32)
        places = _native.Output(outer=outer.data_ptr(), carrier=carrier.data_ptr())
        job = _native.Job(native_cast(parameters, scaled=False), 1, _native_draw(parameters, draw), places)
        _native.scaled(_native_matrix(x, 1, x.numel()), job, self._run())
        return carrier

    def scaled(
        self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale; the carrier into ``out`` if given."""
        x = x.contiguous()
        carrier, outer, job = _carrier_job(x, parameters, axis, draw, out)
        _native.scaled(_native_matrix(x, *x.shape), job, self._run())
        return carrier, outer

    def scaled_interleaved(
        self, x: Tensor, parameters: CastParameters, axis: int, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale of matrices whose columns alternate; the carrier into ``out`` if given."""
        rows, columns, count = x.shape
        if not count or parameters.second_target:
            return scaled_stacked(self.scaled, x, parameters, axis, out)  # the choice sums over tiles that lie whole
        x, outer = x.contiguous(), torch.empty((), dtype=torch.float32)
        carrier = _result(x, x.shape, out)
        places = _native.Output(outer=outer.data_ptr(), carrier=carrier.data_ptr())
        job = _native.Job(native_cast(parameters), axis, _native_draw(parameters, Draw()), places, count)
        _native.scaled(_native_matrix(x, rows, columns * count), job, self._run())
        return carrier, outer

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then along columns; the carriers into ``out`` if given."""
        x = x.contiguous()
        first, first_outer, row_job = _carrier_job(x, row, 1, draws[0], out[0])
        second, second_outer, column_job = _carrier_job(x, column, 0, draws[1], out[1])
        _native.scaled_both(_native_matrix(x, *x.shape), row_job, column_job, self._run())
        return first, first_outer, second, second_outer

    def scaled_quantized(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then codes along columns; the carrier into ``out`` if given."""
        x = x.contiguous()
        carrier, outer, row_job = _carrier_job(x, row, 1, draws[0], out)
        stored, column_job = _codes_job(x, column, 0, draws[1])
        _native.scaled_both(_native_matrix(x, *x.shape), row_job, column_job, self._run())
        return carrier, outer, *stored

    def delayed(
        self, x: Tensor, parameters: CastParameters, draw: Draw, amax: Tensor, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Carrier, outer scale and x's amax under the scale of a given amax; the carrier into ``out`` if given."""
        x = x.contiguous()
        carrier, outer, job = _carrier_job(x, parameters, 1, draw, out)
        own = _native.delayed(_native_matrix(x, *x.shape), job, amax.item(), self._run())
        return carrier, outer, torch.tensor(own, dtype=torch.float32)

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude."""
        x = x.contiguous()
        return torch.tensor(_native.amax(_native_matrix(x, 1, x.numel()), self._run()), dtype=torch.float32)

    def hadamard(
        self, x: Tensor, size: int, signs: SignKey | None, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Hadamard transform along an axis; into ``out`` if given."""
        x = x.contiguous()
        y = _result(x, rounded_shape(x.shape, size, axis), out)
        draw = _native.Draw(_random(0, 0), _random(signs.seed, signs.offset) if signs else None)
        _native.hadamard(_native_matrix(x, *x.shape), size, axis, inverse, draw, y.data_ptr(), self._run())
        return y

    def quantize(self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Packed codes, codes of the block scales, outer scale."""
        x = x.contiguous()
        stored, job = _codes_job(x, parameters, axis, draw)
        _native.scaled(_native_matrix(x, *x.shape), job, self._run())
        return stored

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
        """Values from codes and scales; into ``out`` if given."""
        codes, scales = codes.contiguous(), scales.contiguous()
        outer = None if outer is None else outer.float().contiguous()
        values = _result(codes, shape, out)
        stored = _native.Stored(
            codes=codes.data_ptr(),
            scales=scales.data_ptr(),
            outer=0 if outer is None else outer.data_ptr(),
            rows=values.shape[0],
            cols=values.shape[1],
        )
        _native.dequantize(stored, native_cast(parameters), axis, values.data_ptr(), self._run())
        return values

    def narrow_product(self, a_MK: Tensor, b_KN: Tensor, sums: Sums) -> Tensor:
        """``a @ b`` with a narrow accumulator."""
        a_MK, b_KN = a_MK.float().contiguous(), b_KN.float().contiguous()
        out_MN = _empty((a_MK.shape[0], b_KN.shape[1]))
        _native.narrow_product(
            a=a_MK.data_ptr(),
            b=b_KN.data_ptr(),
            rows=a_MK.shape[0],
            inner=a_MK.shape[1],
            cols=b_KN.shape[1],
            mantissa_bits=sums.mantissa_bits,
            nearest=sums.rounding == "nearest-even",
            promote_every=sums.promote_every,
            out=out_MN.data_ptr(),
            run=self._run(),
        )
        return out_MN

    def statistics(self, x: Tensor, probes: Sequence[Probe], axis: int) -> tuple[Tensor, Tensor]:
        """Counts and numbers of a tensor and of casts of it."""

        def transform(matrix: Tensor, size: int, signs: SignKey | None, along: int) -> Tensor:
            return self.hadamard(matrix, size, signs, along, False)

        return take_statistics(x.contiguous(), probes, axis, transform, self._run())

    def gradient_squares(self, gradients: Sequence[Tensor]) -> Tensor:
        """Sum of squares of each gradient."""
        sums = torch.empty(len(gradients), dtype=torch.float64)
        straight = straight_gradients(gradients)
        places = [0] * (2 * len(straight))
        places[::2], places[1::2] = list(map(Tensor.data_ptr, straight)), list(map(Tensor.numel, straight))
        dtypes = list(map(DTYPES.__getitem__, [gradient.dtype for gradient in straight]))
        _native.gradient_squares(dtypes, places, sums.data_ptr(), self._run())
        return sums

    def optimizer_step(self, slots: Sequence[Slot], rule: Rule) -> None:
        """Update every slot's weight and moments."""
        gradients = straight_gradients([slot.gradient for slot in slots])
        layouts, places = native_step(slots, gradients)
        _native.optimizer_step(layouts, places, native_rule(rule), self._run())

    def plan_step(self, kept: Sequence[Kept]) -> NativeSteps:
        """Steps over the same weights and moments."""
        return NativeSteps(kept, self._run)

    def counters_are(self, counters: list[int], value: int) -> bool:
        """Whether each equals a number."""
        return _native.counters_are(counters, value)

    def advance_counters(self, counters: list[int]) -> None:
        """Add one to each."""
        _native.advance_counters(counters)

    def load_weight(self, stored: StoredWeight) -> Tensor:
        """The fp32 value of a weight."""
        values = _empty(stored.weight.shape)
        _native.load_weight(**weight_places(stored, values), run=self._run())
        return values

    def store_weight(self, stored: StoredWeight, value: Tensor, draw: Draw) -> None:
        """Keep an fp32 value."""
        random = _random(draw.seed, draw.offset)
        _native.store_weight(**weight_places(stored, value), random=random, run=self._run())

    def load_moment(self, stored: StoredMoment) -> Tensor:
        """The fp32 values of a moment."""
        values = _empty(stored.values.shape)
        _native.load_moment(**moment_places(stored, values), run=self._run())
        return values

    def store_moment(self, stored: StoredMoment, value: Tensor) -> None:
        """Keep fp32 values."""
        _native.store_moment(**moment_places(stored, value), run=self._run())

    def _run(self) -> _native.Run:
        return _native.Run(torch.get_num_threads(), self._level)


def _carrier_job(
    x: Tensor, parameters: CastParameters, axis: int, draw: Draw, out: Tensor | None
) -> tuple[Tensor, Tensor, _native.Job]:
    """Carrier and outer scale, and the job that writes them."""
    carrier = _result(x, rounded_shape(x.shape, parameters.transform, axis), out)
    outer = empty_outer(x, parameters, axis)
    places = _native.Output(outer=outer.data_ptr(), carrier=carrier.data_ptr())
    return carrier, outer, _native.Job(native_cast(parameters), axis, _native_draw(parameters, draw), places)


def _codes_job(
    x: Tensor, parameters: CastParameters, axis: int, draw: Draw
) -> tuple[tuple[Tensor, Tensor, Tensor], _native.Job]:
    """Codes, scales' codes and outer scale, and the job that writes them."""
    codes, scales = empty_codes(x, parameters, axis)
    outer = empty_outer(x, parameters, axis)
    places = _native.Output(
        outer=outer.data_ptr(), codes=codes.data_ptr(), scales=scales.data_ptr() if scales.numel() else 0
    )
    job = _native.Job(native_cast(parameters), axis, _native_draw(parameters, draw), places)
    return (codes, scales, outer), job


def _native_draw(parameters: CastParameters, draw: Draw) -> _native.Draw:
    signs = sign_key(parameters, draw)
    elements = _random(draw.seed, draw.offset)
    return _native.Draw(elements, _random(signs.seed, signs.offset) if signs else None)


def _native_matrix(x: Tensor, rows: int, columns: int) -> _native.Matrix:
    return _native.Matrix(x.data_ptr(), DTYPES[x.dtype], rows, columns)


def _random(seed: int, offset: int) -> _native.Random:
    """Signed 64-bit integers as the unsigned ones of the same bits."""
    return _native.Random(seed % _WORD, offset % _WORD)


def _empty(shape: Sequence[int]) -> Tensor:
    result = torch.empty(tuple(shape), dtype=torch.float32)
    if result.nbytes >= _LARGE_RESULT:
        _native.expect_writes(result.data_ptr(), result.nbytes)
    return result


def _result(x: Tensor, shape: Sequence[int], out: Tensor | None) -> Tensor:
    """Where a result made of x goes: ``out``, or fresh memory."""
    return _empty(shape) if out is None else check_out(x, out, shape)
