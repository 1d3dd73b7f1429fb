"""Bit patterns that roundings are tested on, and the comparison that tests use."""

import torch
from torch import Tensor

from mixprec.formats import FORMATS, Format, get_format

# Formats that tensors are rounded to, and those of block scales; a newly registered one is tested without an edit here.
ELEMENTS = [name for name, fmt in FORMATS.items() if fmt.kind != "exponent" and fmt.signed] + ["e5m6"]
UNSIGNED = [name for name, fmt in FORMATS.items() if not fmt.signed]


def same(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit (the sign of zero included), where a NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(((a.view(torch.int32) == b.view(torch.int32)) | (a.isnan() & b.isnan())).all())


def all_16_bit(dtype: torch.dtype) -> Tensor:
    """Every value of a 16-bit dtype: 65536 of them."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def random_fp32(count: int, seed: int) -> Tensor:
    """Random fp32 bit patterns: all exponents, infinities and NaN."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-(2**31), 2**31, (count,), generator=generator, dtype=torch.int64).int().view(torch.float32)


def edges(name: str) -> Tensor:
    """fp32 values at and beside everything special of a format: grid points, midpoints, both ends; both signs."""
    fmt = get_format(name)
    points = torch.tensor(fmt.grid or _grid_sample(fmt), dtype=torch.float64)
    middles = (points[1:] + points[:-1]) / 2
    near = torch.cat((points, middles, torch.tensor(_ends(fmt), dtype=torch.float64))).float()
    bits = near.view(torch.int32)
    magnitudes = bits & (2**31 - 1)
    around = torch.cat((magnitudes, magnitudes + 1, (magnitudes - 1).clamp(min=0)))
    return torch.cat((around, around + torch.tensor(-(2**31)).int())).view(torch.float32)


def _grid_sample(fmt: Format) -> list[float]:
    """Values of the grid near its lowest, middle and highest binades."""
    lowest, highest = fmt.min_exponent, fmt.max_exponent
    binades = {e for e in (lowest - 1, lowest, lowest + 1, 0, 1, highest - 1, highest) if lowest - 1 <= e <= highest}
    step = max(1, 2**fmt.mantissa_bits // 16)
    values = {0.0}
    for exponent in binades:
        spacing = 2.0 ** (max(exponent, lowest) - fmt.mantissa_bits)
        values |= {2.0**exponent + k * spacing for k in (0, 1, *range(2, 2**fmt.mantissa_bits, step))}
    return sorted(v for v in values if v <= fmt.max_value)


def _ends(fmt: Format) -> list[float]:
    fp32_max, half_step = (2 - 2.0**-23) * 2.0**127, 2.0 ** (fmt.max_exponent - fmt.mantissa_bits - 1)
    beyond = [v for v in (fmt.max_value + half_step, fmt.max_value + 2 * half_step) if v <= fp32_max]
    return [
        fmt.max_value,
        *beyond,
        2.0**-149,
        3 * 2.0**-149,
        2.0**-126,
        2.0**-127,
        fp32_max,
        float("inf"),
        float("nan"),
    ]
