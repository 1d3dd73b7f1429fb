"""Tables of numbers as the device code reads them.

A table of n numbers lies in memory as four rows of n fp32 values: the thresholds of its places, its numbers in
ascending order, their codes, and the number of each code. A value belongs to the place that counts the thresholds
which it reaches.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache

import torch
from torch import Tensor

from .._parameters import ElementParameters


@lru_cache(maxsize=256)
def table_on(device: torch.device, parameters: ElementParameters, rounding: str) -> Tensor:
    """The table of a grid as the device code reads it: fp32 ``[4, n]``; kept, for it is read again at every cast.

    Example:
        >>> from mixprec.kernels import cast_parameters
        >>> from mixprec.specs import parse_cast
        >>> int4 = cast_parameters(parse_cast("int4[row]")).grid
        >>> table_on(torch.device("cpu"), int4, "nearest-even")[:2, 7:10].tolist()
        [[-0.5, 0.5000000596046448, 1.5], [-1.0, 0.0, 1.0]]
    """
    numbers, codes = parameters.table, parameters.table_codes
    by_code = dict(zip(codes, numbers, strict=True))
    thresholds = [_threshold(numbers, place, rounding) for place in range(1, len(numbers))]
    rows = ([*thresholds, math.nan], numbers, codes, [by_code[code] for code in range(len(codes))])
    return torch.tensor(rows, dtype=torch.float32, device=device)


def _threshold(numbers: tuple[float, ...], place: int, rounding: str) -> float:
    """The smallest fp32 value that goes to the number at a place, and not to the one below."""
    below, above = numbers[place - 1], numbers[place]
    if rounding == "stochastic":  # the search gives the number below, and the random word decides
        return above
    if rounding == "toward-zero":
        return above if above > 0.0 else _next_fp32(below)
    middle = (below + above) / 2  # exact in fp64, as the format has promised
    tie_goes_up = place % 2 == 0
    return middle if tie_goes_up and middle == _fp32(middle) else _next_fp32(middle)


def _next_fp32(value: float) -> float:
    """The smallest fp32 value above an fp64 value."""
    nearest = _fp32(value)
    if nearest > value:
        return nearest
    if nearest == 0.0:
        return 2.0**-149
    (bits,) = struct.unpack("<i", struct.pack("<f", nearest))
    return float(struct.unpack("<f", struct.pack("<i", bits + (1 if nearest > 0.0 else -1)))[0])


def _fp32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
