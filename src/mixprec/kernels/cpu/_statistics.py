"""Statistics by the compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .._contract import SignKey, sign_key
from .._statistics_contract import CAST_COUNTS, CAST_NUMBERS, EXPONENTS, TENSOR_COUNTS, TENSOR_NUMBERS, Probe
from . import _native
from ._plan import native_cast
from ._steps import DTYPES

_WORD = 2**64
Transform = Callable[[Tensor, int, SignKey | None, int], Tensor]


def take_statistics(
    x: Tensor, probes: Sequence[Probe], axis: int, transform: Transform, run: _native.Run
) -> tuple[Tensor, Tensor]:
    """Counts and numbers of `RawStatistics`.

    Casts with a transform are those without one of the transformed matrix, which is read in a pass of its own.

    Args:
        x: contiguous.
        probes: the casts.
        axis: that the reduction runs along.
        transform: of a matrix, by size and signs along an axis.
        run: how to run.
    """
    straight = [probe for probe in probes if not probe.parameters.transform]
    tensor, rest = _split(_run(x, straight, axis, run), len(straight))
    parts = [tensor]
    for probe in probes:
        if probe.parameters.transform:
            key = sign_key(probe.parameters, probe.draw)
            transformed = transform(x, probe.parameters.transform, key, axis)
            plain = replace(probe, parameters=replace(probe.parameters, transform=0, signs="none"))
            parts += _split(_run(transformed, [plain], axis, run), 1)[1]
        else:
            parts.append(rest.pop(0))
    counts, numbers = zip(*parts, strict=True)
    return torch.cat(counts), torch.cat(numbers)


_Part = tuple[Tensor, Tensor]


def _run(x: Tensor, probes: Sequence[Probe], axis: int, run: _native.Run) -> _Part:
    counts = torch.empty(len(TENSOR_COUNTS) + EXPONENTS + len(CAST_COUNTS) * len(probes), dtype=torch.int64)
    numbers = torch.empty(len(TENSOR_NUMBERS) + len(CAST_NUMBERS) * len(probes), dtype=torch.float64)
    rows, columns = x.shape if x.ndim == 2 else (1, x.numel())
    matrix = _native.Matrix(x.data_ptr(), DTYPES[x.dtype], rows, columns)
    native = [_native_probe(probe, axis) for probe in probes]
    _native.statistics(matrix, native, counts.data_ptr(), numbers.data_ptr(), run)
    return counts, numbers


def _split(part: _Part, casts: int) -> tuple[_Part, list[_Part]]:
    """What is of the tensor, and of each cast."""
    counts, numbers = part
    first_counts, first_numbers = len(TENSOR_COUNTS) + EXPONENTS, len(TENSOR_NUMBERS)
    of_casts = zip(
        counts[first_counts:].reshape(casts, len(CAST_COUNTS)),
        numbers[first_numbers:].reshape(casts, len(CAST_NUMBERS)),
        strict=True,
    )
    return (counts[:first_counts], numbers[:first_numbers]), list(of_casts)


def _native_probe(probe: Probe, axis: int) -> _native.Probe:
    return _native.Probe(
        cast=native_cast(probe.parameters),
        axis=axis,
        elements=_native.Random(probe.draw.seed % _WORD, probe.draw.offset % _WORD),
        delayed=probe.parameters.delayed,
        amax=0.0 if probe.amax is None else probe.amax.item(),
    )
