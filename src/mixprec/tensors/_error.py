"""What casts do to a tensor, as a small table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.formats import Format, get_format
from mixprec.specs import Cast

from ._matrix import as_matrix, random_state, resolve
from ._quantized import QuantizedTensor, quantize
from ._sums import tree_sum


@dataclass(frozen=True, kw_only=True)
class CastError:
    """What one cast does to a tensor.

    Attributes:
        cast: the cast's one-line form.
        bits_per_element: codes and scales, over the number of elements.
        mean_squared_error: of the values after the cast.
        snr_db: mean square of the tensor over the mean squared error, in decibel; inf if nothing changed.
        max_relative_error: largest ``|error| / |x|`` over elements that are not zero.
        flushed: share of the non-zero elements whose code is zero (under a transform: of transformed elements).
        saturated: share of the elements that lay more than half a step beyond the end of the format under their
            scale.
    """

    cast: str
    bits_per_element: float
    mean_squared_error: float
    snr_db: float
    max_relative_error: float
    flushed: float
    saturated: float


@dataclass(frozen=True)
class ErrorTable:
    """The errors of several casts of one tensor; ``str()`` prints a table.

    Example:
        >>> import torch
        >>> table = error(torch.linspace(-1, 1, 64), ["mxfp8", "mxfp4"])
        >>> [row.cast for row in table.rows], table.rows[0].snr_db > table.rows[1].snr_db
        (['mxfp8', 'mxfp4'], True)
    """

    rows: tuple[CastError, ...]

    def __str__(self) -> str:
        header = ("cast", "bits", "mean sq. error", "SNR [dB]", "max rel. error", "flushed", "saturated")
        cells = [header, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in cells
        )


def error(x: Tensor, casts: Iterable[Cast | str], *, seed: int = 0) -> ErrorTable:
    """What casts do to a tensor.

    Args:
        x: fp32, bf16 or fp16, any shape and strides; blocks lie along the last axis.
        casts: casts or their one-line forms.
        seed: key of the random bits of casts that draw any.

    Returns:
        One row a cast. Sums are fp64 in a fixed order, the same on every device.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: a cast is unknown, its scale is delayed, or NaN meets an unscaled format that has none.

    Example:
        >>> import torch
        >>> error(torch.tensor([5.0, 0.1, 3.0, 0.0]), ["mxfp4"]).rows[0].flushed
        0.3333333333333333
    """
    return ErrorTable(tuple(_cast_error(x.detach(), resolve(cast), seed) for cast in casts))


def _cast_error(x: Tensor, cast: Cast, seed: int) -> CastError:
    quantized = quantize(x, cast, seed=seed)
    exact, values = x.double(), quantized.dequantize().double()
    difference = (values - exact).abs()
    noise, signal = _mean(difference * difference), _mean(exact * exact)
    nonzero = exact != 0.0
    relative = torch.where(nonzero, difference / torch.where(nonzero, exact.abs(), 1.0), 0.0)
    flushed, saturated = _shares(x, quantized)
    return CastError(
        cast=str(cast),
        bits_per_element=quantized.bits_per_element,
        mean_squared_error=noise,
        snr_db=10.0 * math.log10(signal / noise) if noise > 0.0 and signal > 0.0 else _snr_limit(noise),
        max_relative_error=relative.max().item() if relative.numel() else 0.0,
        flushed=flushed,
        saturated=saturated,
    )


def _shares(x: Tensor, quantized: QuantizedTensor) -> tuple[float, float]:
    """Share flushed to zero and share saturated, judged in the space that was rounded."""
    cast, before = quantized.cast, as_matrix(x)
    if cast.transform:
        random = random_state(cast, quantized.seed, quantized.offset)
        before = kernels.hadamard(before, cast.transform, signs=cast.signs, axis=1, random=random)
    before = before.double().abs()
    shape, codes = before.shape, quantized.codes
    after = kernels.dequantize(codes, quantized.scales, quantized.outer, cast, shape).double().abs()
    no_scales = torch.empty(0, dtype=torch.uint8, device=codes.device)
    elements = kernels.dequantize(codes, no_scales, None, cast.element, shape).double()
    saturated = _at_an_end(elements, before, after, get_format(cast.element)) & (after < math.inf)
    if cast.granularity.kind == "none":
        saturated |= before.isfinite() & ~after.isfinite()
    nonzero = before > 0.0
    return _share(nonzero & (elements == 0.0), nonzero), _share(saturated, torch.ones_like(nonzero))


def _at_an_end(elements: Tensor, before: Tensor, after: Tensor, fmt: Format) -> Tensor:
    """Where an element is the last of its sign, and what it stands for lay more than half a step beyond."""
    low, high, half_step = -fmt.max_value, fmt.max_value, 2.0 ** (fmt.max_exponent - fmt.mantissa_bits - 1)
    if fmt.grid:
        low, high, half_step = fmt.grid[0], fmt.grid[-1], (fmt.grid[-1] - fmt.grid[-2]) / 2
    end = torch.where(elements < 0.0, low, high)
    return (elements == end) & (before * end.abs() > after * (end.abs() + half_step))


def _share(part: Tensor, whole: Tensor) -> float:
    count = int(whole.count_nonzero())
    return int(part.count_nonzero()) / count if count else 0.0


def _mean(values: Tensor) -> float:
    return tree_sum(values).item() / max(values.numel(), 1)


def _snr_limit(noise: float) -> float:
    """The ratio where one of its parts is zero or no number."""
    if noise == 0.0:
        return math.inf
    return -math.inf if noise > 0.0 else math.nan


def _cells(row: CastError) -> tuple[str, ...]:
    return (
        row.cast,
        f"{row.bits_per_element:.4g}",
        f"{row.mean_squared_error:.3e}",
        f"{row.snr_db:.2f}",
        f"{row.max_relative_error:.3g}",
        f"{100 * row.flushed:.2f} %",
        f"{100 * row.saturated:.2f} %",
    )
