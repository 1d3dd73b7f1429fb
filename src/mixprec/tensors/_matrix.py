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
    """``[seed, offset]`` for a stochastic cast, else None.

    Raises:
        ValueError: the cast is stochastic and there is no seed.
    """
    if cast.rounding != "stochastic":
        return None
    if seed is None:
        raise ValueError(f"the cast {str(cast)!r} rounds stochastically and needs a seed; pass seed=0, say")
    return torch.tensor([seed, offset], dtype=torch.int64)
