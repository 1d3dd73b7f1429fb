"""What the operations refuse, with the reason, and the random state that they take."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from mixprec.specs import Accumulator, parse_cast

from ._contract import FIXED_SIGNS, Draw, SignKey, Sums
from ._parameters import SIGN_STREAM, TRANSFORM_SIZES, CastParameters, cast_parameters

_DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
_SIGNS = ("none", "fixed", "fresh")


@lru_cache(maxsize=1024)
def parameters_of(cast: str) -> CastParameters:
    """The numbers of any cast.

    Raises:
        ValueError: the cast cannot be read.
    """
    return cast_parameters(parse_cast(cast))


@lru_cache(maxsize=1024)
def scaled_parameters(cast: str) -> CastParameters:
    """The numbers of a cast whose scales come from the tensor itself.

    Raises:
        ValueError: the cast cannot be read, or its scale is delayed.
    """
    parameters = parameters_of(cast)
    if parameters.delayed:
        raise ValueError(
            f"the cast {cast!r} takes its scale from earlier passes: give their amax to mixprec.kernels.delayed, or "
            "leave out 'delayed' for a scale of the tensor's own"
        )
    return parameters


@lru_cache(maxsize=1024)
def unscaled_parameters(cast: str) -> CastParameters:
    """The numbers of a cast without a scale.

    Raises:
        ValueError: the cast cannot be read, or has a scale.
    """
    parameters = parameters_of(cast)
    if parameters.scaling != "none":
        raise ValueError(
            f"round takes casts without a scale, got {cast!r}, which shares a scale by {parameters.scaling}; "
            "use mixprec.kernels.scaled, or mixprec.fake_quantize"
        )
    return parameters


@lru_cache(maxsize=1024)
def delayed_parameters(cast: str) -> CastParameters:
    """The numbers of a cast whose scale comes from an amax that is given.

    Raises:
        ValueError: the cast cannot be read, or its scale is not delayed.
    """
    parameters = parameters_of(cast)
    if not parameters.delayed:
        raise ValueError(
            f"the cast {cast!r} takes its scale from the tensor itself: use mixprec.kernels.scaled, or a cast such as "
            "'e4m3[tensor] delayed'"
        )
    return parameters


def check_dtype(x: Tensor) -> None:
    """Refuse what cannot be widened to fp32 exactly."""
    if x.dtype not in _DTYPES:
        hint = "round fp64 to fp32 first: x.float()" if x.dtype == torch.float64 else "make it floating point first"
        raise TypeError(f"casts take float32, bfloat16 or float16 tensors, got {x.dtype}; {hint}")


def check_matrix(x: Tensor, axis: int) -> None:
    """Refuse other dtypes, axes and numbers of dimensions."""
    check_dtype(x)
    check_axis(axis)
    if x.ndim != 2:
        raise ValueError(f"a scaled cast takes a matrix, got shape {tuple(x.shape)}; flatten the leading dimensions")


def check_axis(axis: int) -> None:
    """Refuse what is no axis of a matrix."""
    if axis not in (0, 1):
        raise ValueError(f"axis is the matrix axis that the reduction runs along, 0 or 1; got {axis}")


def check_gradient(x: Tensor) -> None:
    """Refuse an input whose gradient would be lost, where no operation does so."""
    if x.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("x requires a gradient, which rounding does not pass on: detach it first")


def check_transform(size: int, signs: str) -> None:
    """Refuse other sizes and signs."""
    if size not in TRANSFORM_SIZES:
        raise ValueError(f"got a Hadamard transform of size {size}, expected one of {TRANSFORM_SIZES}")
    if signs not in _SIGNS:
        raise ValueError(f"got signs {signs!r}, expected one of {_SIGNS}")


def check_amax(amax: Tensor, x: Tensor) -> None:
    """Refuse what is not one fp32 number beside x."""
    if amax.shape != () or amax.dtype != torch.float32 or amax.device != x.device:
        raise ValueError(
            f"the amax of a delayed scale is {amax.dtype} of shape {tuple(amax.shape)} on {amax.device}: expected one "
            f"float32 number, shape (), on {x.device}"
        )


def check_magnitude(amax: Tensor) -> None:
    """Refuse an amax that is none; an accelerator's is not looked at, which would wait for it."""
    if amax.device.type == "cpu" and not 0.0 <= amax.item() < math.inf:
        raise ValueError(
            f"the amax of a delayed scale is {amax.item()}, expected a finite number, 0 or more (0: of x itself)"
        )


def check_product(a_MK: Tensor, b_KN: Tensor) -> None:
    """Refuse matrices that do not multiply."""
    for matrix in (a_MK, b_KN):
        check_dtype(matrix)
    if a_MK.ndim != 2 or b_KN.ndim != 2 or a_MK.shape[1] != b_KN.shape[0]:
        raise ValueError(f"a product of shapes {tuple(a_MK.shape)} and {tuple(b_KN.shape)}: expected [M, K] and [K, N]")


def sums_of(mantissa_bits: int, rounding: str, promote_every: int) -> Sums:
    """A narrow accumulator from its numbers.

    Raises:
        ValueError: there is none of that kind.
    """
    checked = Accumulator(mantissa_bits=mantissa_bits, rounding=rounding, promote_every=promote_every)  # pyright: ignore[reportArgumentType]
    return Sums(mantissa_bits=mantissa_bits, rounding=checked.rounding, promote_every=promote_every)


def check_random(needed: bool, what: str, random: Tensor | None) -> None:
    """Refuse a missing or misshapen random state where one is needed."""
    fits = random is not None and random.dtype == torch.int64 and random.shape == (2,) and random.device.type == "cpu"
    if needed and not fits:
        got = "none" if random is None else f"{random.dtype} of shape {tuple(random.shape)} on {random.device}"
        raise ValueError(f"{what} needs random=torch.tensor([seed, offset]), int64 of shape (2,) on the CPU; got {got}")


def check_cast_random(parameters: CastParameters, random: Tensor | None) -> None:
    """Refuse a random cast without a random state."""
    word = "stochastic" if parameters.stochastic else "freshly signed"
    check_random(parameters.random, f"a {word} cast to {parameters.grid.element}", random)


def draw_of(parameters: CastParameters, random: Tensor | None, stream: int, sign_stream: int = 0) -> Draw:
    """Where a cast's random bits come from; zeros where none are needed."""
    check_cast_random(parameters, random)
    if random is None or not parameters.random:
        return Draw()
    seed, offset = random.tolist()
    return Draw(seed, _as_signed(offset + stream), _as_signed(offset + sign_stream + SIGN_STREAM))


def transform_signs(signs: str, random: Tensor | None, sign_stream: int) -> SignKey | None:
    """The key of a transform's sign vector, as a cast of the same signs has it."""
    check_random(signs == "fresh", "a transform with fresh signs", random)
    if signs == "none":
        return None
    if signs == "fixed" or random is None:
        return FIXED_SIGNS
    seed, offset = random.tolist()
    return SignKey(seed, _as_signed(offset + sign_stream + SIGN_STREAM))


def _as_signed(value: int) -> int:
    """Wrapped around at 64 bits, as two's complement."""
    return (value + 2**63) % 2**64 - 2**63
