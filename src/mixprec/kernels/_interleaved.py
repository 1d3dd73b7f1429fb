"""Casts of matrices whose columns alternate in memory, such as the taps of a convolution's weight."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from mixprec.specs import Cast

from . import _checks as checks
from ._ops import define, past_the_dispatcher
from ._parameters import CastParameters
from ._registry import default_backend


@lru_cache(maxsize=1024)
def _parameters_of(cast: str) -> CastParameters:
    parameters = checks.scaled_parameters(cast)
    held = parameters.scaling == "block" and parameters.scale != "fp32" and parameters.rule != "quest"
    if not held or parameters.random or parameters.transform:
        raise ValueError(
            "interleaved matrices take block scales from amaxes that the carrier holds, without transform or random "
            f"bits; got {cast!r}: give mixprec.kernels.scaled one matrix after the other"
        )
    return parameters


def _check(x: Tensor, axis: int) -> None:
    checks.check_dtype(x)
    checks.check_axis(axis)
    if x.ndim != 3:
        raise ValueError(f"interleaved matrices are [rows, columns, matrices], got shape {tuple(x.shape)}")


def _scaled_interleaved(x: Tensor, cast: str, axis: int, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    parameters = _parameters_of(cast)
    _check(x, axis)
    return default_backend(x.device.type).scaled_interleaved(x, parameters, axis, out=out)


def _scaled_interleaved_fake(x: Tensor, cast: str, axis: int) -> tuple[Tensor, Tensor]:
    _parameters_of(cast)
    _check(x, axis)
    return x.new_empty(x.shape, dtype=torch.float32), x.new_empty((), dtype=torch.float32)


_scaled_interleaved_into = past_the_dispatcher(_scaled_interleaved, _scaled_interleaved_fake)
_scaled_interleaved_op = define(
    "scaled_interleaved(Tensor x, str cast, int axis) -> (Tensor, Tensor)",
    _scaled_interleaved,
    _scaled_interleaved_fake,
)


def scaled_interleaved(
    x_RCT: Tensor, cast: Cast | str, *, axis: int, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`scaled` of T matrices ``x_RCT[:, :, t]``, each with tiles of its own, under the tensor scale of all of them.

    Args:
        x_RCT: fp32, bf16 or fp16 ``[R, C, T]``.
        cast: with block scales that are powers of two (not by ``quest``) or short floats; not random, no transform.
        axis: the axis that the reduction runs along, 0 or 1.
        out: where the carrier goes, as in `scaled`.

    Returns:
        The carrier, fp32 ``[R, C, T]``, and the outer scale: 0-d fp32.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: another cast, or x has other dimensions; an ``out`` that does not fit.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[5.0, 0.3], [1.0, 2.0]]])                # [1, 2, 2]: matrices [[5, 1]] and [[0.3, 2]]
        >>> scaled_interleaved(x, "mxfp4", axis=1)[0].tolist()
        [[[4.0, 0.25], [1.0, 2.0]]]
    """
    text = cast if isinstance(cast, str) else str(cast)
    if out is None:
        return _scaled_interleaved_op(x_RCT, text, axis)
    return _scaled_interleaved_into(x_RCT, text, axis, out)
