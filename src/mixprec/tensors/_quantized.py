"""Codes and scales as one value, and the values that a cast leaves of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.formats import get_format
from mixprec.specs import Cast

from ._arguments import check_tensor, given_amax, random_state
from ._matrix import as_matrix, canonical, resolve
from ._outer import times_outer


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantizedTensor:
    """A tensor in a low-precision format.

    Attributes:
        codes: uint8 ``[rows, bytes a row]``: one little-endian bit stream for each vector along the last axis
            (4-bit codes: low nibble first).
        scales: uint8 codes of the block scales ``[row tiles, column tiles]``; empty without blocks, and where their
            scales are fp32.
        outer: fp32 scale of the tensor (0-d), of each row (``[rows, 1]``) or, for fp32 block scales, of each tile; 1
            where there is none.
        cast: how it was made.
        shape: of the tensor that it was made from.
        dtype: of the tensor that it was made from.
        seed: key of the random bits, where the cast draws any; a transform with fresh signs is undone by it.
        offset: of the random bits.

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
    seed: int = 0
    offset: int = 0

    def dequantize(self) -> Tensor:
        """The values: fp32, equal bit for bit to `fake_quantize` of the same tensor."""
        rows, columns = self.matrix_shape
        shape = (rows, columns + -columns % (self.cast.transform or 1))
        values = kernels.dequantize(self.codes, self.scales, self.outer, self.cast, shape)
        return restore(values, self.cast, self.shape, random_state(self.cast, self.seed, self.offset))

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns of the tensor as a matrix whose rows are the last axis."""
        columns = self.shape[-1] if self.shape else 1
        return self.shape[:-1].numel(), columns

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales together."""
        cast = self.cast
        # The scale of a tensor or row is kept in fp32, also if it is a power of two.
        has_outer = cast.granularity.kind in ("tensor", "row") or "fp32" in (cast.scale, cast.tensor_scale)
        return self.codes.nbytes + self.scales.nbytes + (self.outer.nbytes if has_outer else 0)

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


def quantize(
    x: Tensor, cast: Cast | str, *, seed: int | None = None, offset: int = 0, amax: Tensor | float | None = None
) -> QuantizedTensor:
    """A tensor as codes and scales; no gradient passes.

    Args:
        x: fp32, bf16 or fp16, any shape and strides. Blocks lie along the last axis; a 2-D tile spans the
            leading dimensions flattened.
        cast: a cast or its one-line form, e.g. ``"e2m1[1x16:e4m3*fp32]"`` or ``"mxfp8 rceil"``.
        seed: key of the random bits, needed by a cast that rounds stochastically or draws fresh signs.
        offset: a further 64-bit number of which the random bits are a function.
        amax: what a delayed scale is made for, needed by such a cast: one finite number, 0 or more; 0 for the
            tensor's own.

    Raises:
        TypeError: x is no tensor, or not of fp32, bf16 or fp16; or a cast, seed or amax that is none.
        ValueError: x is sparse; the cast is unknown, or needs a seed or an amax; an amax is negative, NaN or infinite,
            a seed beyond 64 bits; or NaN meets a format that has none under no scale that could tell.

    Example:
        >>> import torch
        >>> quantize(torch.linspace(-1, 1, 64), "mxfp8").bits_per_element
        8.25
    """
    check_tensor("quantize", x)
    resolved = resolve(cast)
    matrix = as_matrix(x.detach())
    random = random_state(resolved, seed, offset)
    delayed = given_amax(resolved, amax, x.device)
    if delayed is None:
        codes, scales, outer = kernels.quantize(matrix, resolved, random=random)
    else:
        carrier, outer, _ = kernels.delayed(matrix, resolved, delayed, random=random)
        codes, scales, _ = kernels.quantize(carrier, f"{resolved.element} propagate")  # an infinity stays one
    no_scale_tells = resolved.granularity.kind == "none" or delayed is not None
    if no_scale_tells and get_format(resolved.element).nan == "none" and x.isnan().any():
        raise ValueError(
            f"x has NaN elements, and {resolved.element} has no code for NaN; use a cast with a scale of the tensor's "
            "own (whose NaN tells), or fake_quantize, which keeps NaN"
        )
    return QuantizedTensor(
        codes=codes,
        scales=scales,
        outer=outer,
        cast=resolved,
        shape=x.shape,
        dtype=x.dtype,
        seed=0 if random is None or seed is None else seed,
        offset=0 if random is None else offset,
    )


def fake_quantize(
    x: Tensor, cast: Cast | str, *, seed: int = 0, amax: Tensor | float | None = None, out: Tensor | None = None
) -> Tensor:
    """The values that a cast leaves of a tensor: ``decode(code) * scale`` for each element.

    Args:
        x: fp32, bf16 or fp16, any shape and strides. Blocks lie along the last axis; a 2-D tile spans the
            leading dimensions flattened.
        cast: a cast or its one-line form, e.g. ``"mxfp4 sr rht32"``.
        seed: key of the random bits of a cast that draws any.
        amax: what a delayed scale is made for, needed by such a cast: one finite number, 0 or more; 0 for the
            tensor's own.
        out: where the result goes; contiguous fp32 of x's shape, no part of x; not with a transform.

    Returns:
        fp32, shape of x. A cast's transform is undone. NaN stays NaN; a NaN or infinity makes everything that
        shares its scale NaN, unless the scale is of a given amax. What rounds to a value beyond fp32's largest (an
        element times its scale near 3.4e38) is an infinity; a transform whose sums are beyond it gives NaN.

    Raises:
        TypeError: x is no tensor, or not of fp32, bf16 or fp16; or a cast, seed or amax that is none.
        ValueError: x is sparse; the cast is unknown or needs an amax; an amax that is negative, NaN or infinite, a seed
            beyond 64 bits, or an ``out`` that does not fit.
        RuntimeError: x requires a gradient, which rounding does not pass on.

    Example:
        >>> import torch
        >>> fake_quantize(torch.tensor([5.0, 0.3, -2.5]), "mxfp4").tolist()
        [4.0, 0.5, -2.0]
    """
    check_tensor("fake_quantize", x)
    if out is not None:
        check_tensor("fake_quantize", out, "out")
    resolved, text = resolve(cast), canonical(cast)
    random = random_state(resolved, seed, 0)
    delayed = given_amax(resolved, amax, x.device)
    if resolved.granularity.kind == "none":
        return kernels.round(x, text, random=random, out=out)
    into = _matrix_into(out, x, resolved)
    if delayed is None:
        carrier, outer = kernels.scaled(as_matrix(x), text, axis=1, random=random, out=into)
    else:
        carrier, outer, _ = kernels.delayed(as_matrix(x), text, delayed, random=random, out=into)
    return restore(times_outer(carrier, outer, resolved), resolved, x.shape, random)


def _matrix_into(out: Tensor | None, x: Tensor, cast: Cast) -> Tensor | None:
    """The tensor that the result goes into as a matrix, if it can take it."""
    if out is None:
        return None
    if cast.transform:
        raise ValueError("out with a transform: what is undone is another tensor; leave out away")
    if out.shape != x.shape or not out.is_contiguous():
        raise ValueError(
            f"out is {list(out.shape)} with strides {out.stride()}: expected a contiguous tensor of shape "
            f"{list(x.shape)}"
        )
    return as_matrix(out)


def restore(values: Tensor, cast: Cast, shape: torch.Size, random: Tensor | None) -> Tensor:
    """Undo the transform, drop its padding and bring back the shape."""
    if cast.transform:
        values = kernels.hadamard_inverse(values, cast.transform, signs=cast.signs, axis=1, random=random)
        values = values[:, : shape[-1] if shape else 1]
    return values.reshape(shape)
