"""What casts do to a tensor, as a small table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from mixprec.specs import Cast

from ._arguments import check_tensor
from ._matrix import resolve_all
from ._tally import Tally, tally


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


def error(x: Tensor, casts: Cast | str | Iterable[Cast | str], *, seed: int = 0) -> ErrorTable:
    """What casts do to a tensor.

    Args:
        x: fp32, bf16 or fp16, any shape and strides; blocks lie along the last axis.
        casts: casts or their one-line forms; or one alone.
        seed: key of the random bits of casts that draw any.

    Returns:
        One row a cast. Sums are fp64 in a fixed order, the same on every device.

    Raises:
        TypeError: x is no tensor, or not of fp32, bf16 or fp16; or a cast that is none.
        ValueError: no cast, x without values or sparse, a seed beyond 64 bits; a cast is unknown, its scale is delayed,
            or NaN meets an unscaled format that has none.

    Example:
        >>> import torch
        >>> error(torch.tensor([5.0, 0.1, 3.0, 0.0]), ["mxfp4"]).rows[0].flushed
        0.3333333333333333
    """
    check_tensor("error", x)
    if x.is_meta:
        raise ValueError("error: x is on the meta device, which holds no values: no error can be told")
    resolved = resolve_all("error", casts)
    return ErrorTable(tuple(cast_error(cast, tally(x, cast, seed=seed)) for cast in resolved))


def cast_error(cast: Cast, tally: Tally) -> CastError:
    """The figures of a cast from its counts and sums."""
    noise, signal = (total / max(tally.elements, 1) for total in (tally.noise, tally.signal))
    return CastError(
        cast=str(cast),
        bits_per_element=8 * tally.nbytes / tally.elements if tally.elements else 0.0,
        mean_squared_error=noise,
        snr_db=ratio_in_db(signal, noise),
        max_relative_error=tally.max_relative_error,
        flushed=tally.flushed / max(tally.nonzero, 1),
        saturated=tally.saturated / max(tally.rounded, 1),
    )


def ratio_in_db(signal: float, noise: float) -> float:
    """A ratio in decibel: infinite without noise, NaN where a part is no number.

    Example:
        >>> ratio_in_db(1.0, 0.01), ratio_in_db(0.0, 0.0), ratio_in_db(0.0, 1.0), ratio_in_db(1.0, math.inf)
        (20.0, inf, -inf, -inf)
    """
    if noise > 0.0 and signal > 0.0 and signal / noise != 0.0:
        return 10.0 * math.log10(signal / noise)
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
