"""Statistics of tensors and of casts of them, as host numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec.kernels import (
    CAST_COUNTS,
    CAST_NUMBERS,
    EXPONENTS,
    TENSOR_COUNTS,
    TENSOR_NUMBERS,
    RawStatistics,
)

from ._error import ratio_in_db
from ._stored import CASTABLE

_EXPONENT_BIAS = 127
_NOT_FINITE = EXPONENTS - 1


@dataclass(frozen=True, kw_only=True)
class TensorStatistics:
    """What one cast does to a tensor, beside what the tensor is; sums are fp64, the same on every device.

    Under a transform all from ``flushed`` to ``bias`` are told of the padded, transformed tensor, which is what is
    rounded.

    Attributes:
        cast: its one-line form; the short name of the tensor's dtype (which changes nothing) where there is none.
        elements: how many.
        zeros: share of them that are zero.
        nonfinite: how many are inf or NaN.
        nans: how many are NaN.
        amax: largest finite magnitude; 0 where there is none.
        smallest: smallest finite magnitude that is not zero; 0 where there is none.
        mean_magnitude: mean of ``|x|`` over the finite elements.
        mean_square: mean of ``x * x`` over the finite elements.
        flushed: share of the finite non-zero elements that become zero.
        subnormal: share of them that become a subnormal number of the format.
        saturated: share of the elements that lie more than half a step beyond the format's end under their scale, or
            overflow; in the sums these count as the format's largest number.
        unrepresented: how many finite elements become inf or NaN.
        sqnr_db: sum of squares over sum of squared errors [dB]; inf if nothing changed, NaN if nothing can be compared.
        relative_error: sum of the errors' magnitudes over the sum of the magnitudes; 0 for zeros, NaN as above.
        bias: sum of the errors, positive where magnitudes grow, over the sum of the magnitudes; likewise.
        exponents: how many finite non-zero elements have floor(log2 |x|) = the key; "-127" for those below 2^-126.
    """

    cast: str
    elements: int
    zeros: float
    nonfinite: int
    nans: int
    amax: float
    smallest: float
    mean_magnitude: float
    mean_square: float
    flushed: float
    subnormal: float
    saturated: float
    unrepresented: int
    sqnr_db: float
    relative_error: float
    bias: float
    exponents: Mapping[str, int]


def read_statistics(raws: Sequence[RawStatistics]) -> tuple[tuple[TensorStatistics, ...], ...]:
    """Host numbers of what `mixprec.kernels.statistics` gave, in one transfer for all that lies on one device.

    Args:
        raws: statistics of tensors.

    Returns:
        For each of them one result per cast, in order; one in the name of the dtype where it had none.

    Example:
        >>> import torch
        >>> from mixprec import kernels
        >>> raw = kernels.statistics(torch.tensor([5.0, 0.1, 3.0, 0.0]).reshape(1, 4), ["mxfp4"])
        >>> ((one,),) = read_statistics([raw])
        >>> one.amax, one.flushed, one.saturated, dict(one.exponents)
        (5.0, 0.3333333333333333, 0.0, {'-4': 1, '1': 1, '2': 1})
    """
    return tuple(
        tuple(_of_raw(raw, counts, numbers)) for raw, counts, numbers in zip(raws, *_on_the_host(raws), strict=True)
    )


def _on_the_host(raws: Sequence[RawStatistics]) -> tuple[list[list[int]], list[list[float]]]:
    """Counts and numbers of each."""
    counts: list[list[int]] = [[] for _ in raws]
    numbers: list[list[float]] = [[] for _ in raws]
    for device in dict.fromkeys(raw.counts.device for raw in raws):
        here = [i for i, raw in enumerate(raws) if raw.counts.device == device]
        # fp64 numbers travel as the integers of their bits.
        parts = [part for i in here for part in (raws[i].counts, raws[i].numbers.view(torch.int64))]
        pieces = torch.cat(parts).cpu().split([part.numel() for part in parts])
        for place, i in enumerate(here):
            counts[i] = pieces[2 * place].tolist()
            numbers[i] = _doubles(pieces[2 * place + 1])
    return counts, numbers


def _doubles(bits: Tensor) -> list[float]:
    return bits.view(torch.float64).tolist()


def _of_raw(raw: RawStatistics, counts: list[int], numbers: list[float]) -> Iterator[TensorStatistics]:
    first_counts, first_numbers = len(TENSOR_COUNTS) + EXPONENTS, len(TENSOR_NUMBERS)
    tensor = _Tensor(
        dict(zip(TENSOR_COUNTS, counts, strict=False)),
        counts[len(TENSOR_COUNTS) : first_counts],
        dict(zip(TENSOR_NUMBERS, numbers, strict=False)),
    )
    if not raw.casts:
        yield tensor.with_cast(CASTABLE[raw.dtype], tensor.unchanged_counts(), tensor.unchanged_numbers())
    for i, cast in enumerate(raw.casts):
        of_cast = counts[first_counts + i * len(CAST_COUNTS) :]
        sums = numbers[first_numbers + i * len(CAST_NUMBERS) :]
        yield tensor.with_cast(
            cast, dict(zip(CAST_COUNTS, of_cast, strict=False)), dict(zip(CAST_NUMBERS, sums, strict=False))
        )


@dataclass(frozen=True)
class _Tensor:
    """A tensor's own figures, by their names in the contract."""

    counts: Mapping[str, int]
    histogram: list[int]
    numbers: Mapping[str, float]

    @property
    def nonfinite(self) -> int:
        return self.counts["nans"] + self.counts["infinities"]

    def unchanged_counts(self) -> dict[str, int]:
        """Of a cast that changes nothing."""
        nonzero = self.counts["elements"] - self.counts["zeros"] - self.nonfinite
        return {**dict.fromkeys(CAST_COUNTS, 0), "elements": self.counts["elements"], "nonzero": nonzero}

    def unchanged_numbers(self) -> dict[str, float]:
        return {name: self.numbers.get(name, 0.0) for name in CAST_NUMBERS}

    def with_cast(self, cast: str, counts: Mapping[str, int], sums: Mapping[str, float]) -> TensorStatistics:
        nothing_compared = counts["nonfinite"] > 0 and sums["magnitudes"] == 0.0
        magnitudes = math.nan if nothing_compared else sums["magnitudes"] or 1.0
        finite = max(self.counts["elements"] - self.nonfinite, 1)
        return TensorStatistics(
            cast=cast,
            elements=self.counts["elements"],
            zeros=self.counts["zeros"] / max(self.counts["elements"], 1),
            nonfinite=self.nonfinite,
            nans=self.counts["nans"],
            amax=self.numbers["amax"],
            smallest=self.numbers["smallest"],
            mean_magnitude=self.numbers["magnitudes"] / finite,
            mean_square=self.numbers["squares"] / finite,
            flushed=counts["flushed"] / max(counts["nonzero"], 1),
            subnormal=counts["subnormal"] / max(counts["nonzero"], 1),
            saturated=counts["saturated"] / max(counts["elements"], 1),
            unrepresented=counts["nonfinite"],
            sqnr_db=math.nan if nothing_compared else ratio_in_db(sums["squares"], sums["noise"]),
            relative_error=sums["deviation"] / magnitudes,
            bias=sums["bias"] / magnitudes,
            exponents=self.exponents(),
        )

    def exponents(self) -> dict[str, int]:
        subnormal = self.histogram[0] - self.counts["zeros"]
        finite = {0: subnormal, **dict(enumerate(self.histogram[1:_NOT_FINITE], start=1))}
        return {str(place - _EXPONENT_BIAS): count for place, count in finite.items() if count}
