"""Types of the compiled module; what the functions do is written in csrc/include/mixprec/kernels.h.

Arguments named after an array are addresses of contiguous memory.
"""

import enum

class Dtype(enum.Enum):
    f32 = 0
    bf16 = 1
    f16 = 2

class Rounding(enum.Enum):
    nearest_even = 0
    toward_zero = 1
    stochastic = 2

class Granularity(enum.Enum):
    none = 0
    tensor = 1
    row = 2
    block = 3

class ScaleRule(enum.Enum):
    floor = 0
    ceil = 1
    rceil = 2
    even = 3
    two_level = 4

class Level(enum.Enum):
    plain = 0
    avx2 = 1
    avx512 = 2

class Element:
    def __init__(
        self,
        *,
        mantissa_bits: int,
        min_exponent: int,
        max_exponent: int,
        max_value: float,
        overflow: float,
        negative_zero: bool,
    ) -> None: ...

class Cast:
    def __init__(
        self,
        *,
        element: Element,
        rounding: Rounding,
        granularity: Granularity,
        outer: int,
        reduction: int,
        rule: ScaleRule,
        target: float,
        scale_max: float,
    ) -> None: ...

class Encoding:
    def __init__(self, *, bits: int, integer: bool, nan: int, infinity: int) -> None: ...

class Random:
    def __init__(self, seed: int, offset: int) -> None: ...

class Run:
    def __init__(self, threads: int, level: Level) -> None: ...

class Matrix:
    def __init__(self, data: int, dtype: Dtype, rows: int, cols: int) -> None: ...

class Scaled:
    def __init__(self, carrier: int, outer: int, block_scales: int = 0, apply_scale: bool = True) -> None: ...

def cpu_level() -> Level: ...
def has_level(level: Level) -> bool: ...
def expect_writes(data: int, bytes: int) -> None: ...
def amax(x: Matrix, run: Run) -> float: ...
def random_words(random: Random, n: int, words: int, run: Run) -> None: ...
def round(x: Matrix, cast: Cast, random: Random, carrier: int, run: Run) -> None: ...
def scaled(x: Matrix, cast: Cast, axis: int, random: Random, out: Scaled, run: Run) -> None: ...
def scaled_both(
    x: Matrix,
    cast_cols: Cast,
    random_cols: Random,
    along_cols: Scaled,
    cast_rows: Cast,
    random_rows: Random,
    along_rows: Scaled,
    run: Run,
) -> None: ...
def hadamard(x: Matrix, size: int, signs: int, axis: int, inverse: bool, y: int, run: Run) -> None: ...
def packed_bytes(n: int, bits: int) -> int: ...
def pack(
    values: int,
    rows: int,
    cols: int,
    transpose: bool,
    element: Element,
    encoding: Encoding,
    codes: int,
    run: Run,
) -> None: ...
def unpack(
    codes: int,
    rows: int,
    cols: int,
    transpose: bool,
    element: Element,
    encoding: Encoding,
    values: int,
    run: Run,
) -> None: ...
def encode_scales(scales: int, n: int, rule: ScaleRule, codes: int) -> None: ...
def decode_scales(codes: int, n: int, rule: ScaleRule, scales: int) -> None: ...
def apply_scales(
    values: int,
    rows: int,
    cols: int,
    cast: Cast,
    axis: int,
    block_scales: int,
    outer: int,
    run: Run,
) -> None: ...
