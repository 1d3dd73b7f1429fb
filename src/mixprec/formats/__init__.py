"""What numbers exist: exact scalar encode, decode and round.

Everything else that rounds in this library is tested against this package, bit for bit.
"""

from ._block import BlockFormat
from ._block_catalog import BLOCK_ALIASES, BLOCK_FORMATS, get_block_format
from ._describe import FormatDescription, describe
from ._format import Format
from ._generic import float_format, is_generic, unknown_format
from ._names import unknown_name
from ._philox import philox_4x32_10, random_bits
from ._registry import FORMATS, get_format, register
from ._scalar import Overflow, Rounding, decode, encode, round

__all__ = [
    "BLOCK_ALIASES",
    "BLOCK_FORMATS",
    "FORMATS",
    "BlockFormat",
    "Format",
    "FormatDescription",
    "Overflow",
    "Rounding",
    "decode",
    "describe",
    "encode",
    "float_format",
    "get_block_format",
    "get_format",
    "is_generic",
    "philox_4x32_10",
    "random_bits",
    "register",
    "round",
    "unknown_format",
    "unknown_name",
]
