"""Tensors of any number of dimensions as matrices whose rows are the last axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch import Tensor

from mixprec.specs import Cast, parse_cast

# The least reduction by which a stack of matrices [E, N, K] is told from a 1-D convolution's kernel [O, I, k].
_EXPERTS_REDUCTION = 32


def as_matrix(x: Tensor) -> Tensor:
    """``[prod(leading dimensions), last dimension]``; a number is ``[1, 1]``, a vector one row.

    Example:
        >>> import torch
        >>> as_matrix(torch.zeros(2, 3, 4)).shape
        torch.Size([6, 4])
    """
    columns = x.shape[-1] if x.ndim else 1
    return x.reshape(math.prod(x.shape[:-1]), columns)


def is_convolution(shape: Sequence[int]) -> bool:
    """Whether a stored weight has the shape of a convolution's: 4 or 5 dimensions, or 3 with a last one below 32.

    Example:
        >>> [is_convolution(shape) for shape in ((64, 3, 7, 7), (384, 80, 3), (8, 256, 1024), (256, 8))]
        [True, True, False, False]
    """
    return len(shape) in (4, 5) or (len(shape) == 3 and shape[-1] < _EXPERTS_REDUCTION)


def operand_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a stored weight as the operand ``[N, K]`` of its forward product.

    The last axis is the reduction, except in a convolution's weight, where it is all but the first.

    Example:
        >>> operand_shape((768, 3072)), operand_shape((64, 3, 7, 7)), operand_shape((8, 256, 1024)), operand_shape((5,))
        ((768, 3072), (64, 147), (2048, 1024), (1, 5))
    """
    leading = 1 if is_convolution(shape) else len(shape) - 1
    return math.prod(shape[:leading]), math.prod(shape[leading:])


def resolve(cast: Cast | str) -> Cast:
    """A cast from itself or its one-line form.

    Raises:
        TypeError: it is neither.
        ValueError: a form that cannot be read.

    Example:
        >>> resolve("mxfp4").element
        'e2m1'
    """
    return parse_cast(cast) if isinstance(cast, str) else _cast(cast)


def resolve_all(what: str, casts: Cast | str | Iterable[Cast | str]) -> list[Cast]:
    """Casts from themselves or their one-line forms, or from one alone.

    Raises:
        TypeError: one is neither.
        ValueError: a form that cannot be read, or none at all.
    """
    several = casts if isinstance(casts, Iterable) and not isinstance(casts, str) else (casts,)
    resolved = [resolve(cast) for cast in several]
    if not resolved:
        raise ValueError(f"{what}: no cast to try: expected at least one, such as 'mxfp8'")
    return resolved


def _cast(given: object) -> Cast:
    if not isinstance(given, Cast):
        raise TypeError(
            f"cast is {given!r} ({type(given).__name__}), expected a Cast or its one-line form such as 'mxfp8'"
        )
    return given


def canonical(cast: Cast | str) -> str:
    """The one-line form that the casting operators take.

    Example:
        >>> canonical("e2m1[1x32:e8m0]")
        'mxfp4'
    """
    return str(resolve(cast))


# Parsed while compiling, not traced: what torch.compiler.assume_constant_result sets, without importing the compiler.
resolve._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
canonical._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
