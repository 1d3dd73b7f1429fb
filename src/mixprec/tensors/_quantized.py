"""Codes and scales as one value, and the values that a cast leaves of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.formats import get_format
from mixprec.specs import Cast

from ._matrix import as_matrix, canonical, random_state, resolve


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantizedTensor:
    """A tensor in a low-precision format.

    Attributes:
        codes: uint8 ``[rows, bytes a row]``: one little-endian bit stream for each vector along the last axis
            (4-bit codes: low nibble first).
        scales: uint8 codes of the block scales ``[row tiles, column tiles]``; empty without blocks.
        outer: fp32 scale of the tensor (0-d) or of each row (``[rows, 1]``); 1 where there is none.
        cast: how it was made.
        shape: of the tensor that it was made from.
        dtype: of the tensor that it was made from.

    Example:
        >>> import torch
        >>> q = quantize(torch.tensor([1.0, -5.0, 0.3]), "nvfp4")
        >>> q.codes.dtype, q.shape, q.dequantize().shape
        (torch.uint8, torch.Size([3]), torch.Size([3]))
    """

    codes: Tensor
    scales: Tensor
    outer: Tensor
    cast: Cast
    shape: torch.Size
    dtype: torch.dtype

    def dequantize(self) -> Tensor:
        """The values: fp32, equal bit for bit to `fake_quantize` of the same tensor."""
        rows, columns = self.matrix_shape
        shape = (rows, columns + -columns % (self.cast.transform or 1))
        values = kernels.dequantize(self.codes, self.scales, self.outer, self.cast, shape)
        return restore(values, self.cast, self.shape)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns of the tensor as a matrix whose rows are the last axis."""
        columns = self.shape[-1] if self.shape else 1
        return self.shape[:-1].numel(), columns

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales together."""
        outer = self.outer.nbytes if "fp32" in (self.cast.scale, self.cast.tensor_scale) else 0
        return self.codes.nbytes + self.scales.nbytes + outer

    @property
    def bits_per_element(self) -> float:
        """Bits of codes and scales over the number of elements; 0 if there are none."""
        count = self.shape.numel()
        return 8 * self.nbytes / count if count else 0.0

    def __repr__(self) -> str:
        return (
            f"QuantizedTensor({self.cast}, shape={tuple(self.shape)}, from {self.dtype}, "
            f"{self.bits_per_element:.4g} bits per element)"
        )


def quantize(x: Tensor, cast: Cast | str, *, seed: int | None = None, offset: int = 0) -> QuantizedTensor:
    """A tensor as codes and scales; no gradient passes.

    Args:
        x: fp32, bf16 or fp16, any shape and strides. Blocks lie along the last axis; a 2-D tile spans the
            leading dimensions flattened.
        cast: a cast or its one-line form, e.g. ``"e2m1[1x16:e4m3*fp32]"`` or ``"mxfp8 rceil"``.
        seed: key of the random bits, needed by a stochastic cast.
        offset: a further 64-bit number of which the random bits are a function.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: the cast is unknown or needs a seed, or NaN meets an unscaled format that has none.

    Example:
        >>> import torch
        >>> quantize(torch.linspace(-1, 1, 64), "mxfp8").bits_per_element
        8.25
    """
    resolved = resolve(cast)
    matrix = as_matrix(x.detach())
    codes, scales, outer = kernels.quantize(matrix, resolved, random=random_state(resolved, seed, offset))
    if resolved.granularity.kind == "none" and get_format(resolved.element).nan == "none" and x.isnan().any():
        raise ValueError(
            f"x has NaN elements, and {resolved.element} has no code for NaN; "
            "use a cast with a scale (whose NaN tells), or fake_quantize, which keeps NaN"
        )
    return QuantizedTensor(codes=codes, scales=scales, outer=outer, cast=resolved, shape=x.shape, dtype=x.dtype)


def fake_quantize(x: Tensor, cast: Cast | str, *, seed: int = 0, out: Tensor | None = None) -> Tensor:
    """The values that a cast leaves of a tensor: ``decode(code) * scale`` for each element.

    Args:
        x: fp32, bf16 or fp16, any shape and strides. Blocks lie along the last axis; a 2-D tile spans the
            leading dimensions flattened.
        cast: a cast or its one-line form, e.g. ``"mxfp4 sr rht32"``.
        seed: key of the random bits of a stochastic cast.
        out: where the result goes; contiguous fp32 of x's shape, no part of x; not with a transform.

    Returns:
        fp32, shape of x. A cast's transform is undone. NaN stays NaN; a NaN or infinity makes everything that
        shares its scale NaN.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: the cast is unknown.
        RuntimeError: x requires a gradient, which rounding does not pass on.

    Example:
        >>> import torch
        >>> fake_quantize(torch.tensor([5.0, 0.3, -2.5]), "mxfp4").tolist()
        [4.0, 0.5, -2.0]
    """
    resolved, text = resolve(cast), canonical(cast)
    random = random_state(resolved, seed, 0)
    if resolved.granularity.kind == "none":
        return kernels.round(x, text, random=random, out=out)
    if out is not None and not (out.shape == x.shape and out.is_contiguous()):
        raise ValueError(
            f"out is {list(out.shape)} with strides {out.stride()}: expected a contiguous tensor of shape "
            f"{list(x.shape)}"
        )
    into = None if out is None else as_matrix(out)
    carrier, outer = kernels.scaled(as_matrix(x), text, axis=1, random=random, out=into)
    # The outer scale of power-of-two block scales is one.
    values = carrier if resolved.scale == "e8m0" else carrier.mul_(outer)
    return restore(values, resolved, x.shape)


def restore(values: Tensor, cast: Cast, shape: torch.Size) -> Tensor:
    """Undo the transform, drop its padding and bring back the shape."""
    if cast.transform:
        values = kernels.hadamard_inverse(values, cast.transform, signs=cast.random_signs, axis=1)
        values = values[:, : shape[-1] if shape else 1]
    return values.reshape(shape)
