"""The public functions of the kernels: each calls its torch operation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mixprec.specs import Cast

from . import _ops


def round(
    x: Tensor, cast: Cast | str, *, random: Tensor | None = None, stream: int = 0, out: Tensor | None = None
) -> Tensor:
    """Every element rounded to an unscaled cast's format.

    Args:
        x: fp32, bf16 or fp16, any shape.
        cast: without a scale, e.g. ``"bf16"`` or ``"e4m3 sr propagate"``.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding.
        stream: added to the offset.
        out: where the result goes; contiguous fp32 of x's shape, no part of x. Large results are then written at
            the speed of a copy, for new memory has to be mapped and cleared first. Not under ``torch.compile``.

    Returns:
        fp32, shape of x: exact values of the format; NaN stays NaN, also where the format has none.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: the cast has a scale, or is stochastic and ``random`` is missing; an ``out`` that does not fit.

    Example:
        >>> import torch
        >>> round(torch.tensor([0.3, 1.26, 500.0]), "e4m3").tolist()
        [0.3125, 1.25, 448.0]
    """
    if out is None:
        return _ops.round_op(x, _text(cast), random, stream)
    return _ops.round_into(x, _text(cast), random, stream, out)


def scaled(
    x: Tensor,
    cast: Cast | str,
    *,
    axis: int,
    random: Tensor | None = None,
    stream: int = 0,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A matrix cast under its scales, as a carrier and an outer scale: value = carrier * outer.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast: any cast; blocks are (outer, reduction).
        axis: the axis that the reduction runs along: 1, blocks lie along rows; 0, along columns.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding.
        stream: added to the offset.
        out: where the carrier goes, as in `round`; not with a transform.

    Returns:
        The carrier: fp32 ``[R, C]``, element times block scale, exact unless that leaves fp32's range; under a
        transform it stays in the transformed space, zero-padded along ``axis`` to a multiple of the transform.
        The outer scale: fp32, 0-d, or ``[R, 1]`` / ``[1, C]`` for row scales; 1 for power-of-two block scales.
        A NaN or infinity makes everything that shares its scale NaN.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: x is not a matrix, or the cast is stochastic and ``random`` is missing.

    Example:
        >>> import torch
        >>> carrier, outer = scaled(torch.tensor([[5.0, 0.3]]), "mxfp4", axis=1)
        >>> carrier.tolist(), outer.item()
        ([[4.0, 0.5]], 1.0)
    """
    if out is None:
        return _ops.scaled_op(x, _text(cast), axis, random, stream)
    return _ops.scaled_into(x, _text(cast), axis, random, stream, out)


def scaled_both(
    x: Tensor,
    cast_row: Cast | str,
    cast_col: Cast | str,
    *,
    random: Tensor | None = None,
    stream: int = 0,
    out: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A matrix cast twice, with the reduction along axis 1 and along axis 0, in one reading.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast_row: cast for the reduction along axis 1; uses ``stream``.
        cast_col: cast for the reduction along axis 0; uses ``stream + 1``.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding.
        stream: added to the offset.
        out: where the carriers go, as in `round`; not with a transform.

    Returns:
        Carrier and outer scale of the first, then of the second; both carriers in the layout ``[R, C]``.

    Raises:
        TypeError, ValueError: as `scaled`.

    Example:
        >>> import torch
        >>> x = torch.tensor([[5.0, 0.3], [1.0, 2.0]])
        >>> along_rows, _, along_columns, _ = scaled_both(x, "mxfp4", "mxfp4")
        >>> along_rows.tolist(), along_columns.tolist()
        ([[4.0, 0.5], [1.0, 2.0]], [[4.0, 0.25], [1.0, 2.0]])
    """
    if out[0] is None and out[1] is None:
        return _ops.scaled_both_op(x, _text(cast_row), _text(cast_col), random, stream)
    return _ops.scaled_both_into(x, _text(cast_row), _text(cast_col), random, stream, out)


def amax(x: Tensor) -> Tensor:
    """Largest magnitude: fp32, 0-d; NaN if there is a NaN, 0 if x is empty.

    Example:
        >>> import torch
        >>> amax(torch.tensor([1.0, -3.0])).item()
        3.0
    """
    return _ops.amax_op(x)


def hadamard(x: Tensor, size: int, *, signs: bool, axis: int, out: Tensor | None = None) -> Tensor:
    """Orthonormal Walsh-Hadamard transform of groups of ``size`` elements along an axis.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        size: 16, 32, 64 or 128.
        signs: whether the fixed pseudo-random signs are applied first.
        axis: 0 or 1.
        out: where the result goes, as in `round`; of the padded shape.

    Returns:
        fp32, zero-padded along ``axis`` to a multiple of ``size``; additions in a fixed order.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: x is not a matrix, or ``size`` is another number.

    Example:
        >>> import torch
        >>> hadamard(torch.tensor([[8.0, 4.0]]), 16, signs=False, axis=1)[0, :4].tolist()
        [3.0, 1.0, 3.0, 1.0]
    """
    if out is None:
        return _ops.hadamard_op(x, size, signs, axis, False)
    return _ops.hadamard_into(x, size, signs, axis, out)


def hadamard_inverse(x: Tensor, size: int, *, signs: bool, axis: int) -> Tensor:
    """Undo `hadamard`, up to fp32 rounding; the padding stays.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        >>> hadamard_inverse(hadamard(x, 16, signs=True, axis=1), 16, signs=True, axis=1)[:, :4].tolist()
        [[1.0, 2.0, 3.0, 4.0]]
    """
    return _ops.hadamard_op(x, size, signs, axis, True)


def quantize(
    x: Tensor, cast: Cast | str, *, axis: int = 1, random: Tensor | None = None, stream: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix as codes.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast: any cast.
        axis: the axis that the reduction runs along; with 0 the matrix is transposed first.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding.
        stream: added to the offset.

    Returns:
        Codes: uint8, one little-endian bit stream a row (4-bit codes: low nibble first). Codes of the block
        scales: uint8 ``[row tiles, column tiles]``, empty for other casts. The outer scale: as `scaled`.
        A NaN in a format without NaN is coded 0; its scale is NaN, unless the cast is unscaled.

    Raises:
        TypeError, ValueError: as `scaled`.

    Example:
        >>> import torch
        >>> codes, scales, outer = quantize(torch.tensor([[1.0, -6.0]]), "mxfp4")
        >>> codes.tolist(), scales.tolist()
        ([[242]], [[127]])
    """
    return _ops.quantize_op(x, _text(cast), axis, random, stream)


def dequantize(
    codes: Tensor, scales: Tensor, outer: Tensor, cast: Cast | str, shape: Sequence[int], *, axis: int = 1
) -> Tensor:
    """Values of `quantize`'s codes: fp32 in the layout ``[R, C]``.

    Args:
        codes: from `quantize`.
        scales: from `quantize`.
        outer: from `quantize`.
        cast: that of `quantize`.
        shape: of the matrix that was rounded: x's, padded along ``axis`` if the cast has a transform, which is
            not undone.
        axis: that of `quantize`.

    Example:
        >>> import torch
        >>> dequantize(*quantize(torch.tensor([[1.0, -6.0]]), "mxfp4"), "mxfp4", (1, 2)).tolist()
        [[1.0, -6.0]]
    """
    return _ops.dequantize_op(codes, scales, outer, _text(cast), shape, axis)


def _text(cast: Cast | str) -> str:
    """Casts travel through the dispatcher in their one-line form."""
    return cast if isinstance(cast, str) else str(cast)
