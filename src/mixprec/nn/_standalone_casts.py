"""The casts of one call, from what its caller says of them; a compiler that traces the call takes them as constants."""

from __future__ import annotations

from dataclasses import fields

import torch

from ..specs import OPERANDS, LayerPrecision
from ._operand_cast import OperandCast, OperandCasts

#: A layer precision, one cast for all operands in its one-line form, or nothing.
Precision = LayerPrecision | str | None
_FIELDS = tuple(field.name for field in fields(OperandCast))


def casts_of_call(name: str, precision: Precision) -> OperandCasts:
    """The casts that ``precision`` means.

    Args:
        name: of the function, for messages.
        precision: what it was given.

    Raises:
        TypeError: something else than a precision.
        ValueError: a text that is no cast, or a delayed scale, whose history only a conversion has.
    """
    casts = _read(name, precision)
    return _in_trace(casts) if torch.compiler.is_compiling() else casts


def _read(name: str, precision: Precision) -> OperandCasts:
    if precision is not None and not isinstance(precision, (LayerPrecision, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
        raise TypeError(
            f"{name}: precision is a {type(precision).__name__}, expected a LayerPrecision, a cast such as 'mxfp8 "
            "rceil', or None"
        )
    casts = OperandCasts.of(LayerPrecision.uniform(precision) if isinstance(precision, str) else precision)
    if any(cast.delayed is not None for cast in casts.present):
        raise ValueError(
            f"{name}: got a delayed scale, whose history of amaxes belongs to a conversion: use a current scale "
            '(without "delayed"), or mixprec.convert'
        )
    return casts


# What torch.compiler.assume_constant_result sets; calling that would import the whole compiler here.
_read._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def _in_trace(casts: OperandCasts) -> OperandCasts:
    """A copy that the trace makes itself: of a constant it can read the attributes, and call no property."""
    made = {name: _copied(getattr(casts, name)) for name in OPERANDS}
    return OperandCasts(**made, accumulator=casts.accumulator, is_shown=casts.is_shown)


def _copied(cast: OperandCast | None) -> OperandCast | None:
    return None if cast is None else OperandCast(**{name: getattr(cast, name) for name in _FIELDS})
