"""Matrices on which other libraries' casts are compared: ordinary, heavy-tailed, adversarial."""

from collections.abc import Callable

import torch
from torch import Tensor

ROWS, COLUMNS = 64, 256
TOPS = (448.0, 57344.0, 240.0, 28.0, 7.5, 6.0, 1.0)


def normal() -> Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))


def heavy_tailed() -> Tensor:
    """Quotients: the largest number of a row is thousands of times the typical one."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, COLUMNS, generator=generator) / torch.rand(ROWS, COLUMNS, generator=generator).clamp(
        min=1e-4
    )


def binades() -> Tensor:
    """Rows from 2**-32 to 2**31."""
    return normal() * 2.0 ** torch.arange(-32, 32).unsqueeze(1).float()


def ties() -> Tensor:
    """Multiples of 1/8, most of which lie between two neighbours of a short format."""
    return torch.randint(-99, 100, (ROWS, COLUMNS), generator=torch.Generator().manual_seed(2)).float() / 8


def ends() -> Tensor:
    """Rows whose largest number is a format's largest times a power of two, or its neighbour; the last is zero."""
    tops = torch.tensor(TOPS)
    around = torch.cat((tops.nextafter(torch.tensor(0.0)), tops, tops.nextafter(torch.tensor(1e9))))
    powers = 2.0 ** torch.tensor([-5.0, 0.0, 5.0])
    largest = (powers.unsqueeze(1) * around).reshape(-1)
    x = torch.zeros(ROWS, COLUMNS)
    x[: len(largest)] = largest.unsqueeze(1) * torch.linspace(1, -1, COLUMNS)
    return x


MATRICES: dict[str, Callable[[], Tensor]] = {
    "normal": normal,
    "heavy-tailed": heavy_tailed,
    "binades": binades,
    "ties": ties,
    "ends": ends,
}
