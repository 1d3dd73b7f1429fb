"""The kernels that pack codes into rows of bits, and read values from them."""

import triton
import triton.language as tl

from ._codes import decode
from ._scales import decode_scale


@triton.jit
def pack_kernel(codes, packed, columns, row_bytes, count, packing: tl.constexpr):
    """Codes, one a number, to bytes: each row a little-endian bit stream that starts at a byte.

    Args:
        codes: uint8 or int32 ``[R, columns]``.
        packed: uint8 ``[R, row_bytes]``.
        columns: of the codes.
        row_bytes: of the result.
        count: bytes of the result.
        packing: `mixprec.kernels.triton._plan.PackPlan`.
    """
    place = tl.program_id(0).to(tl.int64) * packing.block + tl.arange(0, packing.block)
    row, first_bit = place // row_bytes, place % row_bytes * 8
    octet = place * 0
    steps: tl.constexpr = packing.codes_of_a_byte
    for step in tl.static_range(steps):
        column = first_bit // packing.bits + step
        there = (place < count) & (column < columns)
        code = tl.load(codes + row * columns + column, mask=there, other=0).to(tl.int64) & packing.mask
        shift = column * packing.bits - first_bit  # below zero for what began in an earlier byte
        octet |= (code << tl.minimum(tl.maximum(shift, 0), 8)) >> tl.maximum(-shift, 0)
    tl.store(packed + place, octet & 255, mask=place < count)


@triton.jit
def dequantize_kernel(memory, columns, row_bytes, count, decoding: tl.constexpr):
    """Values of packed codes, times their block scales, times the outer scale.

    Args:
        memory: `mixprec.kernels.triton._launch.CodesMemory`.
        columns: of the matrix.
        row_bytes: of its codes.
        count: elements of the matrix.
        decoding: `mixprec.kernels.triton._plan.DecodePlan`.
    """
    index = tl.program_id(0).to(tl.int64) * decoding.block + tl.arange(0, decoding.block)
    inside = index < count
    row, column = index // columns, index % columns
    grid: tl.constexpr = decoding.grid
    values = decode(_read_code(memory.codes, row, column, row_bytes, inside, decoding), memory.table, grid)
    tiles = (columns + (decoding.tile_columns - 1)) // decoding.tile_columns
    tile = row // decoding.tile_rows * tiles + column // decoding.tile_columns
    if decoding.coded_scales:
        values *= decode_scale(tl.load(memory.scales + tile, mask=inside, other=0).to(tl.int32), decoding)
    if decoding.outer == "tensor":
        values *= tl.load(memory.outer)
    elif decoding.outer == "rows":
        values *= tl.load(memory.outer + row, mask=inside, other=0.0)
    elif decoding.outer == "columns":
        values *= tl.load(memory.outer + column, mask=inside, other=0.0)
    elif decoding.outer == "tiles":
        values *= tl.load(memory.outer + tile, mask=inside, other=0.0)
    tl.store(memory.result + index, values, mask=inside)


@triton.jit
def _read_code(codes, row, column, row_bytes, inside, decoding: tl.constexpr):
    """The codes (int32) of elements, from the bytes that they lie in."""
    first_bit = column * decoding.bits
    first = first_bit // 8
    code = column * 0
    steps: tl.constexpr = decoding.bytes_of_a_code
    for step in tl.static_range(steps):
        there = inside & (first + step < row_bytes)
        octet = tl.load(codes + row * row_bytes + first + step, mask=there, other=0)
        code |= octet.to(tl.int64) << (8 * step)
    return ((code >> (first_bit - first * 8)) & decoding.mask).to(tl.int32)
