"""Seconds that an update of one kernel takes, by the bytes of a parameter."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ...hardware import Curve
from ...optim import AdamW
from ._operators import rising
from ._stopwatch import Stopwatch

_WIDTH = 64
_PARAMETERS = 16
#: Bytes that AdamW reads and writes of an element: weight, two moments and gradient; weight and two moments.
_BYTES = 28


def update_curve(watch: Stopwatch, rows: tuple[int, ...]) -> Curve:
    """Seconds of a step of mixprec's AdamW for each of 16 parameters.

    Args:
        watch: measures.
        rows: of 64 numbers, that a parameter has, rising.
    """
    seconds = [watch.seconds(_step(count))[0] / _PARAMETERS for count in rows]
    return Curve(rising((_BYTES * count * _WIDTH, each) for count, each in zip(rows, seconds, strict=True)))


def _step(rows: int) -> Callable[[], object]:
    parameters = [nn.Parameter(torch.zeros(rows, _WIDTH)) for _ in range(_PARAMETERS)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = AdamW(parameters, lr=1e-4)

    return lambda: optimizer.step()
