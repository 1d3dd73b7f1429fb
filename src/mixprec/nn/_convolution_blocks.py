"""Which casts of a convolution's operands need no other layout than the tensor's own."""

from __future__ import annotations

from dataclasses import replace

from ..specs import Granularity, parse_cast
from ._operand_cast import OperandCast


def fits(cast: OperandCast, extent: int) -> bool:
    """Whether blocks fill ``extent`` along one axis, so that none spans two images or groups."""
    return _is_one_dimensional(cast) and extent % cast.tile[1] == 0


def ending_with(cast: OperandCast, group: int) -> OperandCast:
    """A cast whose block ends with a group that is smaller: the same numbers, in blocks of the group's size."""
    if not _is_one_dimensional(cast) or group >= cast.tile[1]:
        return cast
    return replace(cast, text=_with_block(cast.text, group), tile=(1, group))


def _is_one_dimensional(cast: OperandCast) -> bool:
    # Random words are counted in one layout, whatever the shape.
    shares = cast.scaled and not cast.is_row and not cast.ignores_axis and not cast.random
    return shares and cast.tile[0] == 1 and not cast.transform


def _with_block(text: str, reduction: int) -> str:
    return str(replace(parse_cast(text), granularity=Granularity("block", 1, reduction)))


# Worked out while compiling, not traced: what torch.compiler.assume_constant_result sets.
_with_block._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
