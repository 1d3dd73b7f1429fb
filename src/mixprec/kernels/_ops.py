"""The torch operations ``mixprec::*``: what torch's dispatcher, autograd and compiler see of a backend.

Each is opaque: the compiler takes a rounding as a whole, and cannot drop it as it drops a round trip through
bf16. They have no gradient of their own: a cast belongs inside an autograd function that says what its gradient
is, and an input that would lose its gradient is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _checks as checks
from ._contract import Draw
from ._no_values import has_no_values, results_into
from ._parameters import CastParameters
from ._registry import default_backend
from ._shapes import empty_carrier, empty_codes, empty_outer, rounded_shape

# Operations are registered for good when this module is imported.
_LIBRARY = torch.library.Library("mixprec", "DEF")
# CompositeExplicitAutograd: every device that has no kernel of its own; the registry picks the backend.
_DEVICE_KEYS = ("CPU", "CompositeExplicitAutograd")

_Pair = tuple[Tensor, Tensor]
_Triple = tuple[Tensor, Tensor, Tensor]


def _round(x: Tensor, cast: str, random: Tensor | None, stream: int, out: Tensor | None = None) -> Tensor:
    parameters = checks.unscaled_parameters(cast)
    checks.check_dtype(x)
    return default_backend(x.device.type).round(x, parameters, checks.draw_of(parameters, random, stream), out=out)


def _round_fake(x: Tensor, cast: str, random: Tensor | None, stream: int) -> Tensor:
    checks.check_cast_random(checks.unscaled_parameters(cast), random)
    checks.check_dtype(x)
    return x.new_empty(x.shape, dtype=torch.float32)


def _scaled(
    x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int, sign_stream: int, out: Tensor | None = None
) -> _Pair:
    parameters = checks.scaled_parameters(cast)
    checks.check_matrix(x, axis)
    draw = checks.draw_of(parameters, random, stream, sign_stream)
    return default_backend(x.device.type).scaled(x, parameters, axis, draw, out=out)


def _scaled_fake(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int, sign_stream: int) -> _Pair:
    parameters = checks.scaled_parameters(cast)
    checks.check_matrix(x, axis)
    checks.check_cast_random(parameters, random)
    return empty_carrier(x, parameters, axis), empty_outer(x, parameters, axis)


def _two_casts(
    x: Tensor, casts: tuple[str, str], random: Tensor | None, stream: int, sign_streams: tuple[int, int]
) -> tuple[tuple[CastParameters, CastParameters], tuple[Draw, Draw]]:
    row, column = (checks.scaled_parameters(cast) for cast in casts)
    checks.check_matrix(x, 1)
    first = checks.draw_of(row, random, stream, sign_streams[0])
    return (row, column), (first, checks.draw_of(column, random, stream + 1, sign_streams[1]))


def _scaled_both(
    x: Tensor,
    row: str,
    column: str,
    random: Tensor | None,
    stream: int,
    row_sign_stream: int,
    column_sign_stream: int,
    out: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    parameters, draws = _two_casts(x, (row, column), random, stream, (row_sign_stream, column_sign_stream))
    return default_backend(x.device.type).scaled_both(x, *parameters, draws, out=out)


def _scaled_both_fake(
    x: Tensor,
    row: str,
    column: str,
    random: Tensor | None,
    stream: int,
    row_sign_stream: int,
    column_sign_stream: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    first = _scaled_fake(x, row, 1, random, stream, row_sign_stream)
    return *first, *_scaled_fake(x, column, 0, random, stream + 1, column_sign_stream)


def _scaled_quantized(
    x: Tensor,
    row: str,
    column: str,
    random: Tensor | None,
    stream: int,
    row_sign_stream: int,
    column_sign_stream: int,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    parameters, draws = _two_casts(x, (row, column), random, stream, (row_sign_stream, column_sign_stream))
    return default_backend(x.device.type).scaled_quantized(x, *parameters, draws, out=out)


def _scaled_quantized_fake(
    x: Tensor,
    row: str,
    column: str,
    random: Tensor | None,
    stream: int,
    row_sign_stream: int,
    column_sign_stream: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    first = _scaled_fake(x, row, 1, random, stream, row_sign_stream)
    return *first, *_quantize_fake(x, column, 0, random, stream + 1, column_sign_stream)


def _delayed(
    x: Tensor, cast: str, amax: Tensor, random: Tensor | None, stream: int, out: Tensor | None = None
) -> _Triple:
    parameters = checks.delayed_parameters(cast)
    checks.check_matrix(x, 1)
    checks.check_amax(amax, x)
    checks.check_magnitude(amax)
    draw = checks.draw_of(parameters, random, stream)
    return default_backend(x.device.type).delayed(x, parameters, draw, amax, out=out)


def _delayed_fake(x: Tensor, cast: str, amax: Tensor, random: Tensor | None, stream: int) -> _Triple:
    parameters = checks.delayed_parameters(cast)
    checks.check_matrix(x, 1)
    checks.check_amax(amax, x)
    checks.check_cast_random(parameters, random)
    return empty_carrier(x, parameters, 1), empty_outer(x, parameters, 1), _amax_fake(x)


def _amax(x: Tensor) -> Tensor:
    checks.check_dtype(x)
    return default_backend(x.device.type).amax(x)


def _amax_fake(x: Tensor) -> Tensor:
    checks.check_dtype(x)
    return x.new_empty((), dtype=torch.float32)


def _hadamard(
    x: Tensor,
    size: int,
    signs: str,
    axis: int,
    inverse: bool,
    random: Tensor | None,
    sign_stream: int,
    out: Tensor | None = None,
) -> Tensor:
    checks.check_matrix(x, axis)
    checks.check_transform(size, signs)
    key = checks.transform_signs(signs, random, sign_stream)
    return default_backend(x.device.type).hadamard(x, size, key, axis, inverse, out=out)


def _hadamard_fake(
    x: Tensor, size: int, signs: str, axis: int, inverse: bool, random: Tensor | None, sign_stream: int
) -> Tensor:
    checks.check_matrix(x, axis)
    checks.check_transform(size, signs)
    checks.check_random(signs == "fresh", "a transform with fresh signs", random)
    return x.new_empty(rounded_shape(x.shape, size, axis), dtype=torch.float32)


def _quantize(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int, sign_stream: int) -> _Triple:
    parameters = checks.scaled_parameters(cast)
    checks.check_matrix(x, axis)
    draw = checks.draw_of(parameters, random, stream, sign_stream)
    return default_backend(x.device.type).quantize(x, parameters, axis, draw)


def _quantize_fake(x: Tensor, cast: str, axis: int, random: Tensor | None, stream: int, sign_stream: int) -> _Triple:
    parameters = checks.scaled_parameters(cast)
    checks.check_matrix(x, axis)
    checks.check_cast_random(parameters, random)
    return *empty_codes(x, parameters, axis), empty_outer(x, parameters, axis)


def _dequantize(
    codes: Tensor,
    scales: Tensor,
    outer: Tensor | None,
    cast: str,
    shape: Sequence[int],
    axis: int,
    out: Tensor | None = None,
) -> Tensor:
    checks.check_axis(axis)
    backend = default_backend(codes.device.type)
    return backend.dequantize(codes, scales, outer, checks.parameters_of(cast), shape, axis, out=out)


def _dequantize_fake(
    codes: Tensor, scales: Tensor, outer: Tensor | None, cast: str, shape: Sequence[int], axis: int
) -> Tensor:
    checks.check_axis(axis)
    return codes.new_empty(shape, dtype=torch.float32)


def _narrow_product(a_MK: Tensor, b_KN: Tensor, mantissa_bits: int, rounding: str, promote_every: int) -> Tensor:
    checks.check_product(a_MK, b_KN)
    sums = checks.sums_of(mantissa_bits, rounding, promote_every)
    return default_backend(a_MK.device.type).narrow_product(a_MK, b_KN, sums)


def _narrow_product_fake(a_MK: Tensor, b_KN: Tensor, mantissa_bits: int, rounding: str, promote_every: int) -> Tensor:
    checks.check_product(a_MK, b_KN)
    checks.sums_of(mantissa_bits, rounding, promote_every)
    return a_MK.new_empty((a_MK.shape[0], b_KN.shape[1]), dtype=torch.float32)


def past_the_dispatcher(kernel: Callable[..., Any], fake: Callable[..., Any]) -> Callable[..., Any]:
    """An operation's kernel into tensors that exist, its last argument; no operation, so not for compiled code."""

    def into(x: Tensor, *args: Any) -> Any:
        checks.check_gradient(x)
        return results_into(fake, x, args) if has_no_values(x) else kernel(x, *args)

    return into


def define(schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> Any:
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
        if torch.is_grad_enabled() and any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            raise RuntimeError(
                f"mixprec::{name} got an input that requires a gradient, which it does not pass on; call it inside "
                "a torch.autograd.Function or under torch.no_grad(), or detach the input"
            )
        return operation.redispatch(keyset & below_autograd, *args)

    return kernel


round_into = past_the_dispatcher(_round, _round_fake)
scaled_into = past_the_dispatcher(_scaled, _scaled_fake)
scaled_both_into = past_the_dispatcher(_scaled_both, _scaled_both_fake)
scaled_quantized_into = past_the_dispatcher(_scaled_quantized, _scaled_quantized_fake)
delayed_into = past_the_dispatcher(_delayed, _delayed_fake)
hadamard_into = past_the_dispatcher(_hadamard, _hadamard_fake)
dequantize_into = past_the_dispatcher(_dequantize, _dequantize_fake)

_TWO_CASTS = "(Tensor x, str row, str column, Tensor? random, int stream, int row_sign_stream, int column_sign_stream)"
_ONE_CAST = "(Tensor x, str cast, int axis, Tensor? random, int stream, int sign_stream)"

round_op = define("round(Tensor x, str cast, Tensor? random, int stream) -> Tensor", _round, _round_fake)
scaled_op = define(f"scaled{_ONE_CAST} -> (Tensor, Tensor)", _scaled, _scaled_fake)
scaled_both_op = define(f"scaled_both{_TWO_CASTS} -> (Tensor, Tensor, Tensor, Tensor)", _scaled_both, _scaled_both_fake)
scaled_quantized_op = define(
    f"scaled_quantized{_TWO_CASTS} -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _scaled_quantized,
    _scaled_quantized_fake,
)
delayed_op = define(
    "delayed(Tensor x, str cast, Tensor amax, Tensor? random, int stream) -> (Tensor, Tensor, Tensor)",
    _delayed,
    _delayed_fake,
)
amax_op = define("amax(Tensor x) -> Tensor", _amax, _amax_fake)
hadamard_op = define(
    "hadamard(Tensor x, int size, str signs, int axis, bool inverse, Tensor? random, int sign_stream) -> Tensor",
    _hadamard,
    _hadamard_fake,
)
quantize_op = define(f"quantize{_ONE_CAST} -> (Tensor, Tensor, Tensor)", _quantize, _quantize_fake)
dequantize_op = define(
    "dequantize(Tensor codes, Tensor scales, Tensor? outer, str cast, SymInt[] shape, int axis) -> Tensor",
    _dequantize,
    _dequantize_fake,
)
narrow_product_op = define(
    "narrow_product(Tensor a_MK, Tensor b_KN, int mantissa_bits, str rounding, int promote_every) -> Tensor",
    _narrow_product,
    _narrow_product_fake,
)
