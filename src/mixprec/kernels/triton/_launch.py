"""Kernels with their arguments, and running them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Shape(NamedTuple):
    """A matrix as the kernels see it: what is read, and the padded one that is written."""

    rows: int
    columns: int
    row_stride: int
    column_stride: int
    padded_rows: int
    padded_columns: int


class CastMemory(NamedTuple):
    """What a cast reads and writes; None where its plan has no use for it.

    Attributes:
        x: the matrix.
        result: the carrier, or codes, one per element.
        scales: codes of the block scales.
        outer: the outer scale.
        amax: bits of the largest magnitude of each tile.
        above: bits of the tensor's largest magnitude, or of the one that is given.
        table: the numbers of the grid.
        sums: both sums of each tile.
    """

    x: Tensor
    result: Tensor
    scales: Tensor | None
    outer: Tensor | None
    amax: Tensor | None
    above: Tensor | None
    table: Tensor | None
    sums: tuple[Tensor, Tensor] | None = None


class CodesMemory(NamedTuple):
    """What reading codes reads and writes; None where its plan has no use for it.

    Attributes:
        codes: packed.
        scales: codes of the block scales.
        outer: the outer scale.
        table: the numbers of the grid.
        result: the values.
    """

    codes: Tensor
    scales: Tensor | None
    outer: Tensor | None
    table: Tensor | None
    result: Tensor


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A kernel with all that it takes.

    Attributes:
        kernel: a function of Triton's language.
        arguments: by name.
        programs: how many run.
        warps: of each program.
        device: where the arguments are.
    """

    kernel: Any
    arguments: dict[str, Any]
    programs: int
    warps: int
    device: torch.device


Launcher = Callable[[Launch], None]

# Products and sums must be rounded one by one, as everywhere else.
OPTIONS = {"enable_fp_fusion": False}


def run(launch: Launch) -> None:
    """Run a kernel on the device of its arguments, or by Triton's interpreter."""
    current = torch.cuda.device(launch.device) if launch.device.type == "cuda" else nullcontext()
    with current:
        launch.kernel[(launch.programs,)](**launch.arguments, num_warps=launch.warps, **OPTIONS)
