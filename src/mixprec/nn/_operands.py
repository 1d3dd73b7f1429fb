"""From tensors to GEMM operands: the cast of each role, doing a matrix's two orientations in one read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import kernels
from ..specs import parse_cast
from ._engines import Operand

FORMAT_OF_DTYPE = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True, kw_only=True)
class Randomness:
    """``[seed, offset]`` of the pass and the first stream of the operand."""

    state: Tensor
    stream: int


def cast_operand(x_RC: Tensor, cast: str | None, axis: int, randomness: Randomness) -> Operand:
    """``x`` as an operand whose reduction runs along ``axis``; ``None`` takes it as it is."""
    if cast is None:
        return Operand(x_RC, None, FORMAT_OF_DTYPE[x_RC.dtype])
    random, stream = randomness.state, randomness.stream
    if parse_cast(cast).granularity.kind == "none":
        return Operand(kernels.round(x_RC, cast, random=random, stream=stream), None, cast)
    carrier, outer = kernels.scaled(x_RC, cast, axis=axis, random=random, stream=stream)
    return Operand(carrier, outer if _has_outer(cast) else None, cast)


def cast_both(
    x_RC: Tensor, along_columns: str | None, along_rows: str | None, randomness: Randomness
) -> tuple[Operand, Operand]:
    """``x`` as an operand reduced along axis 1 and as one reduced along axis 0.

    Reads ``x`` once where both are scaled; casts once where the two casts give the same values.
    """
    if along_columns == along_rows and _ignores_axis(along_columns):
        both = cast_operand(x_RC, along_columns, 1, randomness)
        return both, both
    if along_columns is None or along_rows is None or _unscaled(along_columns) or _unscaled(along_rows):
        other = Randomness(state=randomness.state, stream=randomness.stream + 1)
        return cast_operand(x_RC, along_columns, 1, randomness), cast_operand(x_RC, along_rows, 0, other)
    carrier, outer, carrier_t, outer_t = kernels.scaled_both(
        x_RC, along_columns, along_rows, random=randomness.state, stream=randomness.stream
    )
    return (
        Operand(carrier, outer if _has_outer(along_columns) else None, along_columns),
        Operand(carrier_t, outer_t if _has_outer(along_rows) else None, along_rows),
    )


def transposed(operand: Operand) -> Operand:
    """The same operand seen from the other side of the product."""
    outer = operand.outer
    return Operand(operand.carrier.t(), outer if outer is None or outer.dim() == 0 else outer.t(), operand.format)


def rounded_to(x: Tensor, dtype: torch.dtype, wide: bool) -> Tensor:
    """``x`` rounded to ``dtype``'s values; held in fp32 when ``wide`` and ``x`` is fp32."""
    if x.dtype == dtype:
        return x
    if wide and x.dtype == torch.float32:
        return kernels.round(x, FORMAT_OF_DTYPE[dtype])
    return x.to(dtype)


def _has_outer(cast: str) -> bool:
    """MX scales are powers of two inside the carrier: their outer scale is one."""
    return parse_cast(cast).scale != "e8m0"


def _unscaled(cast: str) -> bool:
    return parse_cast(cast).granularity.kind == "none"


def _ignores_axis(cast: str | None) -> bool:
    return cast is None or (parse_cast(cast).granularity.kind in ("none", "tensor"))
