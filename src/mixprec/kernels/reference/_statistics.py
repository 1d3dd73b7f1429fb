"""Statistics of a tensor and of casts of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._contract import sign_key
from .._parameters import CastParameters, ElementParameters
from .._statistics_contract import EXPONENTS, Probe
from ._elements import everywhere, scaled_elements, words_for
from ._hadamard import transformed
from ._scales import largest_magnitude
from ._squares import sum_by_chunks

_MANTISSA_BITS = 23


@dataclass(frozen=True, kw_only=True)
class _Rounded:
    """A matrix before and after a cast, fp32 in one shape.

    Attributes:
        before: what is rounded.
        elements: on the grid.
        after: elements under their scales.
        outside: what is finite, but not its element, though its scale is.
        saturated: ``after``, with the largest number of the format for what is outside.
    """

    before: Tensor
    elements: Tensor
    after: Tensor
    outside: Tensor
    saturated: Tensor


def take_statistics(x: Tensor, probes: Sequence[Probe], axis: int) -> tuple[Tensor, Tensor]:
    """Counts (int64) and numbers (fp64) of `RawStatistics`.

    Example:
        >>> counts, numbers = take_statistics(torch.tensor([[3.0, 0.0]]), (), 1)
        >>> counts[:4].tolist(), numbers.tolist()
        ([2, 1, 0, 0], [3.0, 3.0, 3.0, 9.0])
    """
    wide = x.float().contiguous()
    matrix = wide if wide.ndim == 2 else wide.reshape(1, -1)
    counts, numbers = _of_tensor(wide)
    for probe in probes:
        more_counts, more_numbers = _of_cast(_rounded(matrix, probe, axis), probe.parameters)
        counts += more_counts
        numbers += more_numbers
    return torch.cat([count.reshape(-1) for count in counts]), torch.stack(numbers)


def _of_tensor(x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """``TENSOR_COUNTS`` with the histogram, ``TENSOR_NUMBERS``."""
    exponents = (x.view(torch.int32).reshape(-1) >> _MANTISSA_BITS & (EXPONENTS - 1)).long()
    histogram = torch.zeros(EXPONENTS, dtype=torch.int64, device=x.device)
    histogram.scatter_add_(0, exponents, torch.ones_like(exponents))
    counts = [_whole(x), _count(x == 0.0), _count(x.isnan()), _count(x.isinf()), histogram]
    magnitudes = torch.where(x.isfinite(), x, 0.0).abs()
    exact = magnitudes.double()
    numbers = [
        largest_magnitude(magnitudes).double(),
        _smallest(magnitudes).double(),
        sum_by_chunks(exact),
        sum_by_chunks(exact * exact),
    ]
    return counts, numbers


def _rounded(x: Tensor, probe: Probe, axis: int) -> _Rounded:
    parameters = probe.parameters
    before, amax = x, None
    if parameters.transform:
        before = transformed(x, parameters.transform, sign_key(parameters, probe.draw), axis, inverse=False)
    if probe.amax is not None:
        amax = torch.where(probe.amax == 0.0, largest_magnitude(before), probe.amax)
    words = words_for(before, parameters, probe.draw)
    elements, scales = scaled_elements(before, parameters, axis, words, amax)
    scale = everywhere(scales.scale, before, parameters, axis)
    outer = everywhere(scales.outer, before, parameters, axis)
    after = elements * scale * outer
    outside = before.isfinite() & ~elements.isfinite() & scale.isfinite() & outer.isfinite()
    largest = torch.full_like(before, parameters.grid.max_value).copysign(before) * scale * outer
    saturated = torch.where(outside, largest, after)
    return _Rounded(before=before, elements=elements, after=after, outside=outside, saturated=saturated)


def _of_cast(rounded: _Rounded, parameters: CastParameters) -> tuple[list[Tensor], list[Tensor]]:
    """``CAST_COUNTS`` and ``CAST_NUMBERS``."""
    before, elements = rounded.before, rounded.elements
    finite = before.isfinite()
    lost = finite & ~rounded.after.isfinite()
    compared = finite & rounded.saturated.isfinite()
    saturated = rounded.outside | (finite & ~lost & _beyond_the_end(rounded, parameters.grid))
    counts = [
        _whole(before),
        _count(finite & (before != 0.0)),
        _count(compared & (before != 0.0) & (elements == 0.0)),
        _count(compared & _is_subnormal(elements, parameters.grid)),
        _count(saturated),
        _count(lost),
    ]
    exact = torch.where(compared, before, 0.0).double().abs()
    difference = torch.where(compared, rounded.saturated, 0.0).double().abs() - exact
    terms = (exact, exact * exact, difference * difference, difference.abs(), difference)
    return counts, [sum_by_chunks(term) for term in terms]


def _is_subnormal(elements: Tensor, grid: ElementParameters) -> Tensor:
    if grid.table or grid.integer:
        return torch.zeros_like(elements, dtype=torch.bool)
    return (elements != 0.0) & (elements.double().abs() < 2.0**grid.min_exponent)


def _beyond_the_end(rounded: _Rounded, grid: ElementParameters) -> Tensor:
    """Where an element is the last of its sign, and what it stands for lay more than half a step beyond."""
    low, high, half_step = -grid.max_value, grid.max_value, 2.0 ** (grid.max_exponent - grid.mantissa_bits - 1)
    if grid.table:
        low, high, half_step = grid.table[0], grid.table[-1], (grid.table[-1] - grid.table[-2]) / 2
    elements, before, after = rounded.elements.double(), rounded.before.double().abs(), rounded.after.double().abs()
    end = torch.where(elements < 0.0, low, high)
    return (elements == end) & (before * end.abs() > after * (end.abs() + half_step))


def _smallest(magnitudes: Tensor) -> Tensor:
    """The smallest magnitude that is not zero, 0-d; 0 where there is none."""
    if not magnitudes.numel():
        return magnitudes.new_zeros(())
    smallest = torch.where(magnitudes == 0.0, math.inf, magnitudes).amin()
    return torch.where(smallest == math.inf, 0.0, smallest)


def _whole(x: Tensor) -> Tensor:
    """How many elements there are, int64 on the device."""
    return torch.full((), x.numel(), dtype=torch.int64, device=x.device)


def _count(mask: Tensor) -> Tensor:
    return mask.count_nonzero()
