"""Tensors of any number of dimensions as matrices whose rows are the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from mixprec.specs import Cast, parse_cast

# The least reduction by which a stack of matrices [E, N, K] is told from a 1-D convolution's kernel [O, I, k].
_EXPERTS_REDUCTION = 32


def as_matrix(x: Tensor) -> Tensor:
    """``[prod(leading dimensions), last dimension]``; a number is ``[1, 1]``, a vector one row.

    Example:
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


def check_tensor(what: str, x: object) -> None:
    """Refuse what is no tensor, by the name of the function that got it.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: x is a {type(x).__name__}, expected a torch.Tensor: torch.tensor(x) makes one")


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


def random_state(cast: Cast, seed: int | None, offset: int) -> Tensor | None:
    """``[seed, offset]`` for a cast that draws random bits, else None.

    Raises:
        TypeError: a seed or offset that is no integer.
        ValueError: it does, and there is no seed.
    """
    if cast.rounding != "stochastic" and cast.signs != "fresh":  # is_random; the compiler reads fields alone
        return None
    if seed is None:
        raise ValueError(f"the cast {str(cast)!r} draws random bits and needs a seed; pass seed=0, say")
    _check_integer("seed", seed)
    _check_integer("offset", offset)
    return torch.tensor([seed, offset], dtype=torch.int64)


def _check_integer(name: str, given: object) -> None:
    if not isinstance(given, int):
        raise TypeError(f"{name} is {given!r} ({type(given).__name__}), expected an integer")


def given_amax(cast: Cast, amax: Tensor | float | None, device: torch.device) -> Tensor | None:
    """The amax of a delayed scale as 0-d fp32; None for a cast that takes its scale from the tensor.

    Raises:
        TypeError: an amax that is not one number.
        ValueError: the scale is delayed and there is no amax, or the other way round; an amax that is negative, NaN
            or infinite.
    """
    if (cast.delayed is None) != (amax is None):
        raise ValueError(
            f"the cast '{cast}' takes its scale from earlier passes, of which one tensor knows nothing: pass amax=, or "
            "leave out 'delayed'"
            if amax is None
            else f"the cast '{cast}' takes its scale from the tensor itself: leave out amax, or add 'delayed'"
        )
    return None if amax is None else _checked_amax(amax).to(device)


def _checked_amax(amax: Tensor | float) -> Tensor:
    """One number as 0-d fp32. Its value is not looked at while a compiler traces, which has none."""
    is_number = isinstance(amax, Real) and not isinstance(amax, bool)
    if isinstance(amax, Tensor):
        is_number = amax.numel() == 1 and not amax.is_complex() and amax.dtype != torch.bool
    if not is_number:
        got = f"of shape {list(amax.shape)}, {amax.dtype}" if isinstance(amax, Tensor) else f"{amax!r}"
        raise TypeError(f"amax is {got} ({type(amax).__name__}), expected one number or a tensor of one")
    one = torch.as_tensor(amax).to(torch.float32).reshape(())
    if not torch.compiler.is_compiling() and not 0.0 <= one.item() < math.inf:
        raise ValueError(
            f"amax is {float(amax):g}, expected a finite number of fp32, 0 or more (0: the tensor's own), as "
            "x.abs().amax() gives"
        )
    return one
