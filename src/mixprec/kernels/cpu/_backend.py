"""The CPU backend: allocates results and calls the compiled kernels on their addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from .._contract import SIGN_SEED, CastParameters
from .._out import check_out
from . import _native
from ._levels import LevelName, native_level
from ._plan import Plan, plan_of

_DTYPES = {
    torch.float32: _native.Dtype.f32,
    torch.bfloat16: _native.Dtype.bf16,
    torch.float16: _native.Dtype.f16,
}
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
        >>> from mixprec.specs import Cast, Granularity
        >>> from mixprec.kernels import cast_parameters
        >>> e2m1 = cast_parameters(Cast(element="e2m1", granularity=Granularity("none")))
        >>> CpuBackend().round(torch.tensor([0.3, -2.5, 5.0, 100.0]), e2m1, 0, 0).tolist()
        [0.5, -2.0, 4.0, 6.0]
    """

    name = "cpu"

    def __init__(self, level: LevelName | None = None) -> None:
        self._level = native_level(level)

    def round(
        self, x: Tensor, parameters: CastParameters, seed: int, offset: int, *, out: Tensor | None = None
    ) -> Tensor:
        """Every element on its own; into ``out`` (fp32, contiguous, no part of x) if given."""
        x = x.contiguous()
        carrier = _result(x, out)
        _native.round(
            _matrix(x, 1, x.numel()),
            plan_of(parameters, scaled=False).cast,
            _random(seed, offset),
            carrier.data_ptr(),
            self._run(),
        )
        return carrier

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
        """Carrier and outer scale; the carrier into ``out`` (fp32, contiguous, no part of x) if given."""
        x = self._prepared(x, parameters, axis)
        carrier, outer = _result(x, out), _outer(x, parameters, axis)
        _native.scaled(
            _matrix(x, x.shape[0], x.shape[1]),
            plan_of(parameters, scaled=True).cast,
            axis,
            _random(seed, offset),
            _native.Scaled(carrier.data_ptr(), outer.data_ptr()),
            self._run(),
        )
        return carrier, outer

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
        """Carrier and outer scale along rows, then along columns; the carriers into ``out`` if given."""
        if row.transform or column.transform:
            first_results = self.scaled(x, row, 1, seed, offset, out=out[0])
            return *first_results, *self.scaled(x, column, 0, seed, offset + 1, out=out[1])
        x = x.contiguous()
        first, first_outer = _result(x, out[0]), _outer(x, row, 1)
        second, second_outer = _result(x, out[1]), _outer(x, column, 0)
        _native.scaled_both(
            _matrix(x, x.shape[0], x.shape[1]),
            plan_of(row, scaled=True).cast,
            _random(seed, offset),
            _native.Scaled(first.data_ptr(), first_outer.data_ptr()),
            plan_of(column, scaled=True).cast,
            _random(seed, offset + 1),
            _native.Scaled(second.data_ptr(), second_outer.data_ptr()),
            self._run(),
        )
        return first, first_outer, second, second_outer

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude."""
        x = x.contiguous()
        return torch.tensor(_native.amax(_matrix(x, 1, x.numel()), self._run()), dtype=torch.float32)

    def hadamard(
        self, x: Tensor, size: int, signs: bool, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Hadamard transform along an axis."""
        x = x.contiguous()
        shape = list(x.shape)
        shape[axis] = math.ceil(shape[axis] / size) * size
        y = _empty(shape) if out is None else check_out(x, out, shape)
        flips = _sign_vector(size, self._level) if signs else None
        address = flips.data_ptr() if flips is not None else 0
        _native.hadamard(_matrix(x, x.shape[0], x.shape[1]), size, address, axis, inverse, y.data_ptr(), self._run())
        return y

    def quantize(
        self, x: Tensor, parameters: CastParameters, axis: int, seed: int, offset: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Packed codes, codes of the block scales, outer scale."""
        x = self._prepared(x, parameters, axis)
        plan, run = plan_of(parameters, scaled=True), self._run()
        rows, columns = x.shape if axis == 1 else (x.shape[1], x.shape[0])
        elements, outer = _empty(x.shape), _outer(x, parameters, axis)
        block_scales = _empty(_scale_shape(plan, parameters, rows, columns))
        out = _native.Scaled(
            elements.data_ptr(), outer.data_ptr(), block_scales.data_ptr() if plan.blocks else 0, False
        )
        _native.scaled(_matrix(x, x.shape[0], x.shape[1]), plan.cast, axis, _random(seed, offset), out, run)
        codes = torch.empty(rows, _native.packed_bytes(columns, parameters.bits), dtype=torch.uint8)
        _native.pack(
            elements.data_ptr(),
            x.shape[0],
            x.shape[1],
            axis == 0,
            plan.element,
            plan.encoding,
            codes.data_ptr(),
            run,
        )
        scales = torch.empty(block_scales.shape, dtype=torch.uint8)
        _native.encode_scales(block_scales.data_ptr(), scales.numel(), plan.rule, scales.data_ptr())
        return codes, scales, outer

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
        plan, run = plan_of(parameters, scaled=True), self._run()
        codes, scales, outer = codes.contiguous(), scales.contiguous(), outer.float().contiguous()
        values, block_scales = _empty(shape), _empty(scales.shape)
        rows, columns = values.shape
        _native.unpack(codes.data_ptr(), rows, columns, axis == 0, plan.element, plan.encoding, values.data_ptr(), run)
        _native.decode_scales(scales.data_ptr(), scales.numel(), plan.rule, block_scales.data_ptr())
        _native.apply_scales(
            values.data_ptr(), rows, columns, plan.cast, axis, block_scales.data_ptr(), outer.data_ptr(), run
        )
        return values

    def _run(self) -> _native.Run:
        return _native.Run(torch.get_num_threads(), self._level)

    def _prepared(self, x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
        """The contiguous matrix that is scaled: x, or its transform."""
        if parameters.transform:
            return self.hadamard(x, parameters.transform, parameters.random_signs, axis, inverse=False)
        return x.contiguous()


@lru_cache(maxsize=32)
def _sign_vector(size: int, level: _native.Level) -> Tensor:
    """The transform's fixed signs, +1 or -1: bit 0 of each element's random word."""
    words = torch.empty(size, dtype=torch.int32)
    _native.random_words(_random(SIGN_SEED, 0), size, words.data_ptr(), _native.Run(1, level))
    return 1.0 - 2.0 * (words & 1).float()


def _matrix(x: Tensor, rows: int, columns: int) -> _native.Matrix:
    return _native.Matrix(x.data_ptr(), _DTYPES[x.dtype], rows, columns)


def _random(seed: int, offset: int) -> _native.Random:
    """Signed 64-bit integers as the unsigned ones of the same bits."""
    return _native.Random(seed % _WORD, offset % _WORD)


def _empty(shape: Sequence[int]) -> Tensor:
    result = torch.empty(tuple(shape), dtype=torch.float32)
    if result.nbytes >= _LARGE_RESULT:
        _native.expect_writes(result.data_ptr(), result.nbytes)
    return result


def _result(x: Tensor, out: Tensor | None) -> Tensor:
    """Where the rounded matrix x goes: ``out``, or fresh memory."""
    return _empty(x.shape) if out is None else check_out(x, out, x.shape)


def _outer(x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    if parameters.scaling != "row":
        return _empty(())
    return _empty((x.shape[0], 1) if axis == 1 else (1, x.shape[1]))


def _scale_shape(plan: Plan, parameters: CastParameters, rows: int, columns: int) -> tuple[int, ...]:
    if not plan.blocks:
        return (0,)
    return math.ceil(rows / parameters.outer), math.ceil(columns / parameters.reduction)
