"""Tensors of any number of dimensions as matrices whose rows are the last axis."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mixprec.specs import Cast, parse_cast


def as_matrix(x: Tensor) -> Tensor:
    """``[prod(leading dimensions), last dimension]``; a number is ``[1, 1]``, a vector one row.

    Example:
        >>> as_matrix(torch.zeros(2, 3, 4)).shape
        torch.Size([6, 4])
    """
    columns = x.shape[-1] if x.ndim else 1
    return x.reshape(math.prod(x.shape[:-1]), columns)


def resolve(cast: Cast | str) -> Cast:
    """A cast from itself or its one-line form.

    Example:
        >>> resolve("mxfp4").element
        'e2m1'
    """
    return parse_cast(cast) if isinstance(cast, str) else cast


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
        ValueError: it does, and there is no seed.
    """
    if cast.rounding != "stochastic" and cast.signs != "fresh":  # is_random; the compiler reads fields alone
        return None
    if seed is None:
        raise ValueError(f"the cast {str(cast)!r} draws random bits and needs a seed; pass seed=0, say")
    return torch.tensor([seed, offset], dtype=torch.int64)


def given_amax(cast: Cast, amax: Tensor | float | None, device: torch.device) -> Tensor | None:
    """The amax of a delayed scale as 0-d fp32; None for a cast that takes its scale from the tensor.

    Raises:
        ValueError: the scale is delayed and there is no amax, or the other way round.
    """
    if (cast.delayed is None) != (amax is None):
        raise ValueError(
            f"the cast '{cast}' takes its scale from earlier passes, of which one tensor knows nothing: pass amax=, or "
            "leave out 'delayed'"
            if amax is None
            else f"the cast '{cast}' takes its scale from the tensor itself: leave out amax, or add 'delayed'"
        )
    return None if amax is None else torch.as_tensor(amax, dtype=torch.float32, device=device)
