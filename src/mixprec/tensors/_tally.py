"""What a cast does to a tensor, as sums that add up over tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.formats import Format, get_format
from mixprec.specs import Cast

from ._arguments import random_state
from ._matrix import as_matrix
from ._quantized import QuantizedTensor, quantize, restore
from ._sums import RunningSum

#: Elements that are rounded at a time, where the cast lets rows go one after another.
ROUNDED_AT_A_TIME = 2**20
#: Elements whose fp64 forms are held at a time: they fit a core's cache.
COUNTED_AT_A_TIME = 2**16


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts and sums over the elements of a tensor, or of several.

    Attributes:
        elements: how many.
        nbytes: of codes and scales.
        noise: sum of the squared errors, in fp64 and a fixed order.
        signal: sum of the squares, likewise.
        max_relative_error: largest ``|error| / |x|`` over elements that are not zero.
        rounded: elements in the space that was rounded; with a transform's padding.
        nonzero: those of them that are not zero.
        flushed: those of them that are not zero and whose code is zero.
        saturated: those of them more than half a step beyond the format's largest value under their scale.
    """

    elements: int
    nbytes: int
    noise: float
    signal: float
    max_relative_error: float
    rounded: int
    nonzero: int
    flushed: int
    saturated: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            elements=self.elements + other.elements,
            nbytes=self.nbytes + other.nbytes,
            noise=self.noise + other.noise,
            signal=self.signal + other.signal,
            max_relative_error=_larger(self.max_relative_error, other.max_relative_error),
            rounded=self.rounded + other.rounded,
            nonzero=self.nonzero + other.nonzero,
            flushed=self.flushed + other.flushed,
            saturated=self.saturated + other.saturated,
        )


def tally(x: Tensor, cast: Cast, *, seed: int = 0, at_a_time: int = ROUNDED_AT_A_TIME) -> Tally:
    """Round a tensor and count; the same numbers whatever ``at_a_time`` is.

    Beside x there is memory for the codes and a few numbers for each of ``at_a_time`` elements (or of one row, where
    that is more). A cast that looks at the whole tensor (a tensor's scale, random bits) is rounded at once, which
    takes four bytes an element more while it lasts, eight with a transform.

    Args:
        x: fp32, bf16 or fp16, any shape and strides; blocks lie along the last axis.
        cast: any cast.
        seed: key of the random bits of a stochastic cast.
        at_a_time: elements that are rounded at a time.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: NaN meets an unscaled format that has none.
    """
    matrix = as_matrix(x.detach())
    running, nbytes = _Running(), 0
    for rows, quantized, part_bytes in _parts(matrix, cast, seed, at_a_time):
        running.add(rows, quantized)
        nbytes += part_bytes
    return running.tally(x.numel(), nbytes)


def _parts(matrix: Tensor, cast: Cast, seed: int, at_a_time: int) -> Iterator[tuple[Tensor, QuantizedTensor, int]]:
    """Some rows, their codes, and the bytes that these add."""
    tile = max(cast.granularity.outer, 1)
    step = max(at_a_time // max(matrix.shape[1], 1) // tile, 1) * tile
    starts = range(0, max(matrix.shape[0], 1), step)
    if _rows_are_independent(cast):
        for start in starts:
            rows = matrix[start : start + step]
            quantized = quantize(rows, cast, seed=seed)
            yield rows, quantized, quantized.nbytes
    else:
        whole = quantize(matrix, cast, seed=seed)
        for start in starts:
            quantized = _rows_of(whole, start, start + step)
            yield matrix[start : start + step], quantized, whole.nbytes if start == 0 else 0


def _rows_are_independent(cast: Cast) -> bool:
    """Whether tiles of rows can be rounded one after another: no scale and no random bits are the whole tensor's."""
    tensor_wide = cast.granularity.kind == "tensor" or cast.tensor_scale is not None
    return not tensor_wide and random_state(cast, 0, 0) is None


def _rows_of(whole: QuantizedTensor, start: int, stop: int) -> QuantizedTensor:
    """Some rows of a matrix's codes, whole tiles of them."""
    tile = max(whole.cast.granularity.outer, 1)
    tiles = slice(start // tile, -(-stop // tile))
    outer_rows = slice(start, stop) if whole.cast.granularity.kind == "row" else tiles
    codes = whole.codes[start:stop]
    return replace(
        whole,
        codes=codes,
        scales=whole.scales[tiles] if whole.scales.ndim == 2 else whole.scales,
        outer=whole.outer[outer_rows] if whole.outer.ndim == 2 else whole.outer,
        shape=torch.Size((codes.shape[0], whole.shape[1])),
    )


class _Running:
    """A tally in the making."""

    def __init__(self) -> None:
        self._noise, self._signal = RunningSum(), RunningSum()
        self._relative = 0.0
        self._rounded = self._nonzero = self._flushed = self._saturated = 0

    def tally(self, elements: int, nbytes: int) -> Tally:
        return Tally(
            elements=elements,
            nbytes=nbytes,
            noise=self._noise.value(),
            signal=self._signal.value(),
            max_relative_error=self._relative,
            rounded=self._rounded,
            nonzero=self._nonzero,
            flushed=self._flushed,
            saturated=self._saturated,
        )

    def add(self, rows: Tensor, quantized: QuantizedTensor) -> None:
        """Count some rows, before and after the cast."""
        cast = quantized.cast
        random = random_state(cast, quantized.seed, quantized.offset)
        before = rows
        if cast.transform:
            before = kernels.hadamard(rows, cast.transform, signs=cast.signs, axis=1, random=random)
        after = kernels.dequantize(quantized.codes, quantized.scales, quantized.outer, cast, before.shape)
        no_scales = torch.empty(0, dtype=torch.uint8, device=rows.device)
        elements = kernels.dequantize(quantized.codes, no_scales, None, cast.element, before.shape)
        values = restore(after, cast, rows.shape, random) if cast.transform else after
        for x, value in _pieces(rows, values):
            self._add_errors(x, value)
        for piece in _pieces(before, after, elements):
            self._add_shares(cast, *piece)

    def _add_errors(self, x: Tensor, value: Tensor) -> None:
        exact = x.double()
        difference = value.double().sub_(exact).abs_()
        self._noise.add(difference * difference)
        self._signal.add(exact * exact)
        relative = difference.div_(exact.abs()).masked_fill_(exact == 0.0, 0.0)
        if relative.numel():
            self._relative = _larger(self._relative, relative.max().item())

    def _add_shares(self, cast: Cast, before: Tensor, after: Tensor, element: Tensor) -> None:
        """Flushed to zero and saturated, judged in the space that was rounded."""
        before, after = before.double().abs_(), after.double().abs_()
        saturated = _at_an_end(element.double(), before, after, get_format(cast.element)) & (after < math.inf)
        if cast.granularity.kind == "none":
            saturated |= before.isfinite() & ~after.isfinite()
        nonzero = before > 0.0
        self._rounded += before.numel()
        self._nonzero += int(nonzero.count_nonzero())
        self._flushed += int((nonzero & (element == 0.0)).count_nonzero())
        self._saturated += int(saturated.count_nonzero())


def _at_an_end(elements: Tensor, before: Tensor, after: Tensor, fmt: Format) -> Tensor:
    """Where an element is the last of its sign, and what it stands for lay more than half a step beyond."""
    low, high, half_step = -fmt.max_value, fmt.max_value, 2.0 ** (fmt.max_exponent - fmt.mantissa_bits - 1)
    if fmt.grid:
        low, high, half_step = fmt.grid[0], fmt.grid[-1], (fmt.grid[-1] - fmt.grid[-2]) / 2
    end = torch.where(elements < 0.0, low, high)
    return (elements == end) & (before * end.abs() > after * (end.abs() + half_step))


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same elements of each tensor, some at a time."""
    return zip(*(tensor.reshape(-1).split(COUNTED_AT_A_TIME) for tensor in tensors), strict=True)


def _larger(a: float, b: float) -> float:
    """The larger of two, NaN if one is NaN."""
    return a if a >= b or math.isnan(a) else b
