"""The public functions of the kernels: each calls its torch operation, or with ``out`` its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from mixprec.specs import Cast, Signs

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
    sign_stream: int = 0,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A matrix cast under its scales, as a carrier and an outer scale: value = carrier * outer.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast: any cast whose scale comes from x; blocks are (outer, reduction).
        axis: the axis that the reduction runs along: 1, blocks lie along rows; 0, along columns.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding and for fresh signs.
        stream: added to the offset of the elements' random bits.
        sign_stream: added to the offset of a fresh sign vector; two casts with the same one are flipped alike.
        out: where the carrier goes, as in `round`; with a transform of the padded shape.

    Returns:
        The carrier: fp32 ``[R, C]``, element times block scale (the element alone under fp32 scales), exact unless
        that leaves fp32's range; under a transform it stays in the transformed space, zero-padded along ``axis`` to a
        multiple of the transform. The outer scale: fp32, 0-d, ``[R, 1]`` / ``[1, C]`` for row scales, or one number
        per tile for fp32 block scales; 1 for other block scales without tensor scale or ratio.
        A NaN or infinity makes everything that shares its scale NaN.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: x is not a matrix, the scale is a delayed one, or the cast is random and ``random`` is missing.

    Example:
        >>> import torch
        >>> carrier, outer = scaled(torch.tensor([[5.0, 0.3]]), "mxfp4", axis=1)
        >>> carrier.tolist(), outer.item()
        ([[4.0, 0.5]], 1.0)
    """
    arguments = (x, _text(cast), axis, random, stream, sign_stream)
    return _ops.scaled_op(*arguments) if out is None else _ops.scaled_into(*arguments, out)


def scaled_both(
    x: Tensor,
    cast_row: Cast | str,
    cast_col: Cast | str,
    *,
    random: Tensor | None = None,
    stream: int = 0,
    sign_streams: tuple[int, int] = (0, 0),
    out: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A matrix cast twice, with the reduction along axis 1 and along axis 0, in one reading.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast_row: cast for the reduction along axis 1; uses ``stream``.
        cast_col: cast for the reduction along axis 0; uses ``stream + 1``.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding and for fresh signs.
        stream: added to the offset of the elements' random bits.
        sign_streams: of the two casts, as in `scaled`.
        out: where the carriers go, as in `scaled`.

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
    arguments = (x, _text(cast_row), _text(cast_col), random, stream, *sign_streams)
    if out[0] is None and out[1] is None:
        return _ops.scaled_both_op(*arguments)
    return _ops.scaled_both_into(*arguments, out)


def scaled_quantized(
    x: Tensor,
    cast_row: Cast | str,
    cast_col: Cast | str,
    *,
    random: Tensor | None = None,
    stream: int = 0,
    sign_streams: tuple[int, int] = (0, 0),
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `scaled_both`, with the second cast's result as codes.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast_row: cast for the reduction along axis 1; uses ``stream``.
        cast_col: cast for the reduction along axis 0; uses ``stream + 1``.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding and for fresh signs.
        stream: added to the offset of the elements' random bits.
        sign_streams: of the two casts, as in `scaled`.
        out: where the carrier of the first goes, as in `scaled`.

    Returns:
        Carrier and outer scale of the first (`scaled`); codes, scales and outer scale of the second (`quantize`).

    Raises:
        TypeError, ValueError: as `scaled`.

    Example:
        >>> import torch
        >>> carrier, _, codes, scales, _ = scaled_quantized(torch.tensor([[5.0, 0.3]]), "bf16", "mxfp4")
        >>> carrier.tolist(), codes.tolist(), scales.tolist()
        ([[5.0, 0.30078125]], [[102]], [[127, 123]])
    """
    arguments = (x, _text(cast_row), _text(cast_col), random, stream, *sign_streams)
    return _ops.scaled_quantized_op(*arguments) if out is None else _ops.scaled_quantized_into(*arguments, out)


def delayed(
    x: Tensor,
    cast: Cast | str,
    amax: Tensor,
    *,
    random: Tensor | None = None,
    stream: int = 0,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix cast under a scale of earlier passes: value = carrier * outer.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast: one with a delayed scale, e.g. ``"e4m3[tensor] delayed(16)"``.
        amax: fp32, 0-d, finite, 0 or more: what the scale is made for; 0 for x's own. On the CPU that is checked.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding.
        stream: added to the offset.
        out: where the carrier goes, as in `round`.

    Returns:
        The carrier, fp32 ``[R, C]``; the outer scale, 0-d; x's own amax, 0-d, NaN if there is a NaN. What lies beyond
        the given amax saturates or propagates, as the cast says.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: x is not a matrix, the cast is of another kind, or ``amax`` is not one fp32 number, or no magnitude.

    Example:
        >>> import torch
        >>> x, amax = torch.tensor([[1.0, -8.0]]), torch.tensor(4.0)
        >>> carrier, outer, new_amax = delayed(x, "e4m3[tensor] delayed", amax)
        >>> (carrier * outer).tolist(), new_amax.item()
        ([[1.0, -4.0]], 8.0)
    """
    arguments = (x, _text(cast), amax, random, stream)
    return _ops.delayed_op(*arguments) if out is None else _ops.delayed_into(*arguments, out)


def amax(x: Tensor) -> Tensor:
    """Largest magnitude: fp32, 0-d; NaN if there is a NaN, 0 if x is empty.

    Example:
        >>> import torch
        >>> amax(torch.tensor([1.0, -3.0])).item()
        3.0
    """
    return _ops.amax_op(x)


def hadamard(
    x: Tensor,
    size: int,
    *,
    signs: Signs,
    axis: int,
    random: Tensor | None = None,
    sign_stream: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """Orthonormal Walsh-Hadamard transform of groups of ``size`` elements along an axis.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        size: 16, 32, 64 or 128.
        signs: what flips the elements of a group first: ``"none"``, the ``"fixed"`` pseudo-random vector, or the
            ``"fresh"`` one of ``random`` and ``sign_stream``.
        axis: 0 or 1.
        random: int64 ``[seed, offset]`` on the CPU, for fresh signs.
        sign_stream: added to the offset.
        out: where the result goes, as in `round`; of the padded shape.

    Returns:
        fp32, zero-padded along ``axis`` to a multiple of ``size``; additions in a fixed order.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: x is not a matrix, ``size`` or ``signs`` is another, or fresh signs lack ``random``.

    Example:
        >>> import torch
        >>> hadamard(torch.tensor([[8.0, 4.0]]), 16, signs="none", axis=1)[0, :4].tolist()
        [3.0, 1.0, 3.0, 1.0]
    """
    arguments = (x, size, signs, axis, False, random, sign_stream)
    return _ops.hadamard_op(*arguments) if out is None else _ops.hadamard_into(*arguments, out)


def hadamard_inverse(
    x: Tensor, size: int, *, signs: Signs, axis: int, random: Tensor | None = None, sign_stream: int = 0
) -> Tensor:
    """Undo `hadamard` of the same arguments, up to fp32 rounding; the padding stays.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        >>> hadamard_inverse(hadamard(x, 16, signs="fixed", axis=1), 16, signs="fixed", axis=1)[:, :4].tolist()
        [[1.0, 2.0, 3.0, 4.0]]
    """
    return _ops.hadamard_op(x, size, signs, axis, True, random, sign_stream)


def quantize(
    x: Tensor,
    cast: Cast | str,
    *,
    axis: int = 1,
    random: Tensor | None = None,
    stream: int = 0,
    sign_stream: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix as codes, in its own layout.

    Args:
        x: fp32, bf16 or fp16 ``[R, C]``.
        cast: any cast whose scale comes from x.
        axis: the axis that the reduction runs along.
        random: int64 ``[seed, offset]`` on the CPU, for stochastic rounding and for fresh signs.
        stream: added to the offset of the elements' random bits.
        sign_stream: of a fresh sign vector, as in `scaled`.

    Returns:
        Codes: uint8, one little-endian bit stream a row (4-bit codes: low nibble first). Codes of the block
        scales: uint8, one per tile; empty for fp32 block scales and other casts. The outer scale: as `scaled`.
        A NaN in a format without NaN is coded as 0 is; its scale is NaN, unless the cast is unscaled.

    Raises:
        TypeError, ValueError: as `scaled`.

    Example:
        >>> import torch
        >>> codes, scales, outer = quantize(torch.tensor([[1.0, -6.0]]), "mxfp4")
        >>> codes.tolist(), scales.tolist()
        ([[242]], [[127]])
    """
    return _ops.quantize_op(x, _text(cast), axis, random, stream, sign_stream)


def dequantize(
    codes: Tensor,
    scales: Tensor,
    outer: Tensor | None,
    cast: Cast | str,
    shape: Sequence[int],
    *,
    axis: int = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Values of `quantize`'s codes: fp32 ``[R, C]``.

    Args:
        codes: from `quantize`.
        scales: from `quantize`.
        outer: from `quantize`; None: the carrier of `scaled`, which it is not multiplied into.
        cast: that of `quantize`.
        shape: of the matrix that was rounded: x's, padded along ``axis`` if the cast has a transform, which is
            not undone.
        axis: that of `quantize`.
        out: where the values go, as in `round`.

    Example:
        >>> import torch
        >>> dequantize(*quantize(torch.tensor([[1.0, -6.0]]), "mxfp4"), "mxfp4", (1, 2)).tolist()
        [[1.0, -6.0]]
    """
    arguments = (codes, scales, outer, _text(cast), shape, axis)
    return _ops.dequantize_op(*arguments) if out is None else _ops.dequantize_into(*arguments, out)


def narrow_product(
    a_MK: Tensor,
    b_KN: Tensor,
    *,
    mantissa_bits: int,
    rounding: Literal["nearest-even", "toward-zero"],
    promote_every: int = 0,
) -> Tensor:
    """A product of matrices whose partial sums are kept in a narrow accumulator.

    Args:
        a_MK: fp32, bf16 or fp16 ``[M, K]``.
        b_KN: likewise ``[K, N]``.
        mantissa_bits: stored mantissa bits of the accumulator, 1 to 22; its exponent has no limit.
        rounding: of each sum to it, ``"nearest-even"`` or ``"toward-zero"``.
        promote_every: after as many products the accumulator is added to an fp32 sum and starts at zero; 0: never.

    Returns:
        fp32 ``[M, N]``. Products are summed one by one, in the order of K.

    Raises:
        TypeError: other dtypes.
        ValueError: shapes that do not multiply, or an accumulator that does not exist.

    Example:
        >>> import torch
        >>> a, b = torch.ones(1, 9), torch.ones(9, 1)
        >>> narrow_product(a, b, mantissa_bits=2, rounding="toward-zero").item()    # 8 + 1 needs 3 bits
        8.0
        >>> narrow_product(a, b, mantissa_bits=2, rounding="toward-zero", promote_every=4).item()
        9.0
    """
    return _ops.narrow_product_op(a_MK, b_KN, mantissa_bits, rounding, promote_every)


def _text(cast: Cast | str) -> str:
    """Casts travel through the dispatcher in their one-line form."""
    return cast if isinstance(cast, str) else str(cast)
