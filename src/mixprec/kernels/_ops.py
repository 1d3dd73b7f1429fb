"""The torch operations ``mixprec::*``: what torch's dispatcher, autograd and compiler see of a backend.

Each is opaque: the compiler takes a rounding as a whole, and cannot drop it as it drops a round trip through
bf16. They only cast, and have no gradient of their own: a cast belongs inside an autograd function that says
what its gradient is, and an input that would lose its gradient is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from mixprec.specs import parse_cast

from ._contract import TRANSFORM_SIZES, CastParameters, cast_parameters
from ._registry import default_backend

_DTYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
# Operations are registered for good when this module is imported.
_LIBRARY = torch.library.Library("mixprec", "DEF")
# CompositeExplicitAutograd: every device that has no kernel of its own; the registry picks the backend.
_DEVICE_KEYS = ("CPU", "CompositeExplicitAutograd")


def _round(x: Tensor, cast: str, random: Tensor | None, stream: int) -> Tensor:
    parameters = _unscaled(cast)
    _check_dtype(x)
    return default_backend(x.device.type).round(x, parameters, *_random_state(parameters, random, stream))


def _round_fake(x: Tensor, cast: str, random: Tensor | None, stream: int) -> Tensor:
    _check_random(_unscaled(cast), random)
    _check_dtype(x)
    return x.new_empty(x.shape, dtype=torch.float32)


def _scaled(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int) -> tuple[Tensor, Tensor]:
    parameters = _parameters(cast)
    _check_matrix(x, axis)
    return default_backend(x.device.type).scaled(x, parameters, axis, *_random_state(parameters, random, stream))


def _scaled_fake(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int) -> tuple[Tensor, Tensor]:
    parameters = _parameters(cast)
    _check_matrix(x, axis)
    _check_random(parameters, random)
    carrier = x.new_empty(_rounded_shape(x.shape, parameters.transform, axis), dtype=torch.float32)
    return carrier, _outer_fake(x, parameters, axis)


def round_into(x: Tensor, cast: str, random: Tensor | None, stream: int, out: Tensor) -> Tensor:
    """``round`` into a tensor that exists; no operation, so not for compiled code."""
    parameters = _unscaled(cast)
    _check_dtype(x)
    _check_into(x, parameters)
    return default_backend(x.device.type).round(x, parameters, *_random_state(parameters, random, stream), out=out)


def scaled_into(
    x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int, out: Tensor
) -> tuple[Tensor, Tensor]:
    """``scaled`` with its carrier into a tensor that exists; no operation, so not for compiled code."""
    parameters = _parameters(cast)
    _check_matrix(x, axis)
    _check_into(x, parameters)
    state = _random_state(parameters, random, stream)
    return default_backend(x.device.type).scaled(x, parameters, axis, *state, out=out)


def _scaled_both(
    x: Tensor, row: str, column: str, random: Tensor | None, stream: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    row_parameters, column_parameters = _parameters(row), _parameters(column)
    _check_matrix(x, 1)
    needs_bits = row_parameters if row_parameters.stochastic else column_parameters
    seed, offset = _random_state(needs_bits, random, stream)
    return default_backend(x.device.type).scaled_both(x, row_parameters, column_parameters, seed, offset)


def scaled_both_into(
    x: Tensor, row: str, column: str, random: Tensor | None, stream: int, out: tuple[Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``scaled_both`` with its carriers into tensors that exist; no operation, so not for compiled code."""
    row_parameters, column_parameters = _parameters(row), _parameters(column)
    _check_matrix(x, 1)
    for tensor, parameters in zip(out, (row_parameters, column_parameters), strict=True):
        if tensor is not None:
            _check_into(x, parameters)
    state = _random_state(row_parameters if row_parameters.stochastic else column_parameters, random, stream)
    return default_backend(x.device.type).scaled_both(x, row_parameters, column_parameters, *state, out=out)


def _scaled_both_fake(
    x: Tensor, row: str, column: str, random: Tensor | None, stream: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *_scaled_fake(x, row, 1, random, stream), *_scaled_fake(x, column, 0, random, stream)


def _amax(x: Tensor) -> Tensor:
    _check_dtype(x)
    return default_backend(x.device.type).amax(x)


def _amax_fake(x: Tensor) -> Tensor:
    _check_dtype(x)
    return x.new_empty((), dtype=torch.float32)


def _hadamard(x: Tensor, size: int, signs: bool, axis: int, inverse: bool) -> Tensor:
    _check_matrix(x, axis)
    _check_transform(size)
    return default_backend(x.device.type).hadamard(x, size, signs, axis, inverse)


def hadamard_into(x: Tensor, size: int, signs: bool, axis: int, out: Tensor) -> Tensor:
    """``hadamard`` into a tensor that exists; no operation, so not for compiled code."""
    _check_matrix(x, axis)
    _check_transform(size)
    _check_gradient(x)
    return default_backend(x.device.type).hadamard(x, size, signs, axis, False, out=out)


def _hadamard_fake(x: Tensor, size: int, signs: bool, axis: int, inverse: bool) -> Tensor:
    _check_matrix(x, axis)
    _check_transform(size)
    return x.new_empty(_rounded_shape(x.shape, size, axis), dtype=torch.float32)


def _quantize(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int) -> tuple[Tensor, Tensor, Tensor]:
    parameters = _parameters(cast)
    _check_matrix(x, axis)
    return default_backend(x.device.type).quantize(x, parameters, axis, *_random_state(parameters, random, stream))


def _quantize_fake(
    x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int
) -> tuple[Tensor, Tensor, Tensor]:
    parameters = _parameters(cast)
    _check_matrix(x, axis)
    _check_random(parameters, random)
    shape = _rounded_shape(x.shape, parameters.transform, axis)
    rows, columns = shape if axis == 1 else (shape[1], shape[0])
    codes = x.new_empty((rows, (columns * parameters.bits + 7) // 8), dtype=torch.uint8)
    scales_shape = (_ceil_div(rows, parameters.outer), _ceil_div(columns, parameters.reduction))
    scales = x.new_empty(scales_shape if _has_blocks(parameters) else (0,), dtype=torch.uint8)
    return codes, scales, _outer_fake(x, parameters, axis)


def _dequantize(codes: Tensor, scales: Tensor, outer: Tensor, cast: str, shape: Sequence[int], axis: int) -> Tensor:
    _check_axis(axis)
    backend = default_backend(codes.device.type)
    return backend.dequantize(codes, scales, outer, _parameters(cast), shape, axis)


def _dequantize_fake(
    codes: Tensor, scales: Tensor, outer: Tensor, cast: str, shape: Sequence[int], axis: int
) -> Tensor:
    _check_axis(axis)
    return codes.new_empty(shape, dtype=torch.float32)


@lru_cache(maxsize=1024)
def _parameters(cast: str) -> CastParameters:
    return cast_parameters(parse_cast(cast))


@lru_cache(maxsize=1024)
def _unscaled(cast: str) -> CastParameters:
    parameters = _parameters(cast)
    if parameters.scaling != "none":
        raise ValueError(
            f"round takes casts without a scale, got {cast!r}, which shares a scale by {parameters.scaling}; "
            "use mixprec.kernels.scaled, or mixprec.fake_quantize"
        )
    return parameters


def _random_state(parameters: CastParameters, random: Tensor | None, stream: int) -> tuple[int, int]:
    """Seed and offset; zeros where no random bits are needed."""
    if not parameters.stochastic:
        return 0, 0
    seed, offset = _checked_random(parameters, random).tolist()
    return seed, _as_signed(offset + stream)


def _as_signed(value: int) -> int:
    """Wrapped around at 64 bits, as two's complement."""
    return (value + 2**63) % 2**64 - 2**63


def _checked_random(parameters: CastParameters, random: Tensor | None) -> Tensor:
    if random is not None and random.dtype == torch.int64 and random.shape == (2,) and random.device.type == "cpu":
        return random
    got = "none" if random is None else f"{random.dtype} of shape {tuple(random.shape)} on {random.device}"
    raise ValueError(
        f"a stochastic cast to {parameters.element} needs random=torch.tensor([seed, offset]), int64 of shape (2,) "
        f"on the CPU; got {got}"
    )


def _check_random(parameters: CastParameters, random: Tensor | None) -> None:
    if parameters.stochastic:
        _checked_random(parameters, random)


def _check_dtype(x: Tensor) -> None:
    if x.dtype not in _DTYPES:
        hint = "round fp64 to fp32 first: x.float()" if x.dtype == torch.float64 else "make it floating point first"
        raise TypeError(f"casts take float32, bfloat16 or float16 tensors, got {x.dtype}; {hint}")


def _check_matrix(x: Tensor, axis: int) -> None:
    _check_dtype(x)
    _check_axis(axis)
    if x.ndim != 2:
        raise ValueError(f"a scaled cast takes a matrix, got shape {tuple(x.shape)}; flatten the leading dimensions")


def _check_gradient(x: Tensor) -> None:
    if x.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("x requires a gradient, which rounding does not pass on: detach it first")


def _check_into(x: Tensor, parameters: CastParameters) -> None:
    _check_gradient(x)
    if parameters.transform:
        raise ValueError("out with a transform: its carrier may be padded; leave out away")


def _check_axis(axis: int) -> None:
    if axis not in (0, 1):
        raise ValueError(f"axis is the matrix axis that the reduction runs along, 0 or 1; got {axis}")


def _check_transform(size: int) -> None:
    if size not in TRANSFORM_SIZES:
        raise ValueError(f"got a Hadamard transform of size {size}, expected one of {TRANSFORM_SIZES}")


def _has_blocks(parameters: CastParameters) -> bool:
    return parameters.scaling in ("mx", "two-level")


def _outer_fake(x: Tensor, parameters: CastParameters, axis: int) -> Tensor:
    shape = () if parameters.scaling != "row" else (x.shape[0], 1) if axis == 1 else (1, x.shape[1])
    return x.new_empty(shape, dtype=torch.float32)


def _rounded_shape(shape: Sequence[int], transform: int, axis: int) -> tuple[int, int]:
    """Shape of the matrix that is rounded: padded along ``axis`` to a multiple of the transform."""
    size = transform or 1
    rows, columns = shape
    return (_ceil_div(rows, size) * size, columns) if axis == 0 else (rows, _ceil_div(columns, size) * size)


def _ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


def _define(schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Register an operation: its kernel for every device, its shapes, and the refusal of gradients."""
    name = schema.split("(", 1)[0]
    _LIBRARY.define(schema, tags=(torch.Tag.needs_fixed_stride_order,))
    for key in _DEVICE_KEYS:
        _LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"mixprec::{name}", fake, lib=_LIBRARY)
    operation = getattr(torch.ops.mixprec, name).default
    _LIBRARY.impl(name, _refuse_gradients(name, operation), "Autograd", with_keyset=True)
    return operation


def _refuse_gradients(name: str, operation: Any) -> Callable[..., Any]:
    below_autograd = torch._C._after_autograd_keyset  # pyright: ignore[reportPrivateUsage]

    def kernel(keyset: Any, *args: Any) -> Any:
        if args[0].requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"mixprec::{name} got an input that requires a gradient, which a cast does not pass on; cast inside "
                "a torch.autograd.Function or under torch.no_grad(), or detach the input"
            )
        return operation.redispatch(keyset & below_autograd, *args)

    return kernel


round_op = _define("round(Tensor x, str cast, Tensor? random, int stream) -> Tensor", _round, _round_fake)
scaled_op = _define(
    "scaled(Tensor x, str cast, int axis, Tensor? random, int stream) -> (Tensor, Tensor)", _scaled, _scaled_fake
)
scaled_both_op = _define(
    "scaled_both(Tensor x, str row, str column, Tensor? random, int stream) -> (Tensor, Tensor, Tensor, Tensor)",
    _scaled_both,
    _scaled_both_fake,
)
amax_op = _define("amax(Tensor x) -> Tensor", _amax, _amax_fake)
hadamard_op = _define(
    "hadamard(Tensor x, int size, bool signs, int axis, bool inverse) -> Tensor", _hadamard, _hadamard_fake
)
quantize_op = _define(
    "quantize(Tensor x, str cast, int axis, Tensor? random, int stream) -> (Tensor, Tensor, Tensor)",
    _quantize,
    _quantize_fake,
)
dequantize_op = _define(
    "dequantize(Tensor codes, Tensor scales, Tensor outer, str cast, SymInt[] shape, int axis) -> Tensor",
    _dequantize,
    _dequantize_fake,
)
