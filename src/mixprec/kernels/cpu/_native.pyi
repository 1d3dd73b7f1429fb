"""Types of the compiled module; what the functions do is written in csrc/include/mixprec/kernels.h.

Arguments named after an array are addresses of contiguous memory. An optimizer's step: csrc/include/mixprec/optimizer.h
and csrc/bind/optimizer.cpp.
"""

import enum

BINDINGS: int

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

class ScaleKind(enum.Enum):
    none = 0
    fp32 = 1
    power = 2
    floating = 3

class ExponentRule(enum.Enum):
    floor = 0
    ceil = 1
    rceil = 2
    even = 3
    quest = 4

class Level(enum.Enum):
    plain = 0
    avx2 = 1
    avx512 = 2

class WeightKind(enum.Enum):
    plain = 0
    master = 1
    split = 2
    stochastic = 3
    kahan = 4

class MomentKind(enum.Enum):
    fp32 = 0
    bf16 = 1
    e4m3 = 2
    dynamic = 3

class Table:
    def __init__(self, values: list[float], codes: list[int]) -> None: ...

class Grid:
    def __init__(
        self,
        *,
        mantissa_bits: int,
        min_exponent: int,
        max_exponent: int,
        max_value: float,
        overflow: float,
        negative_zero: bool,
        bits: int,
        is_signed: bool,
        integer: bool,
        nan_code: int,
        infinity_code: int,
        table: Table | None,
    ) -> None: ...

class Cast:
    def __init__(
        self,
        *,
        grid: Grid,
        rounding: Rounding,
        granularity: Granularity,
        outer: int,
        reduction: int,
        scale: ScaleKind,
        rule: ExponentRule,
        target: float,
        second_target: float,
        prescale: float,
        scale_grid: Grid | None,
        scale_limit: float,
        transform: int,
    ) -> None: ...

class Random:
    def __init__(self, seed: int, offset: int) -> None: ...

class Draw:
    def __init__(self, elements: Random, signs: Random | None) -> None: ...

class Run:
    def __init__(self, threads: int, level: Level) -> None: ...

class Matrix:
    def __init__(self, data: int, dtype: Dtype, rows: int, cols: int) -> None: ...

class Output:
    def __init__(self, *, outer: int, carrier: int = 0, codes: int = 0, scales: int = 0) -> None: ...

class Job:
    def __init__(self, cast: Cast, axis: int, draw: Draw, out: Output, interleaved: int = 1) -> None: ...

class Probe:
    def __init__(self, *, cast: Cast, axis: int, elements: Random, delayed: bool, amax: float) -> None: ...

class Stored:
    def __init__(self, *, codes: int, scales: int, outer: int, rows: int, cols: int) -> None: ...

def cpu_level() -> Level: ...
def has_level(level: Level) -> bool: ...
def expect_writes(data: int, bytes: int) -> None: ...
def packed_bytes(n: int, bits: int) -> int: ...
def amax(x: Matrix, run: Run) -> float: ...
def random_words(random: Random, n: int, words: int, run: Run) -> None: ...
def scaled(x: Matrix, job: Job, run: Run) -> None: ...
def scaled_both(x: Matrix, first: Job, second: Job, run: Run) -> None: ...
def delayed(x: Matrix, job: Job, amax: float, run: Run) -> float: ...
def statistics(x: Matrix, probes: list[Probe], counts: int, numbers: int, run: Run) -> None: ...
def hadamard(x: Matrix, size: int, axis: int, inverse: bool, draw: Draw, y: int, run: Run) -> None: ...
def dequantize(stored: Stored, cast: Cast, axis: int, values: int, run: Run) -> None: ...
def narrow_product(
    *,
    a: int,
    b: int,
    rows: int,
    inner: int,
    cols: int,
    mantissa_bits: int,
    nearest: bool,
    promote_every: int,
    out: int,
    run: Run,
) -> None: ...

class MomentLayout:
    def __init__(self, kind: MomentKind, block: int, expand: bool, is_signed: bool) -> None: ...

class Layout:
    def __init__(self, gradient: Dtype, kind: WeightKind, weight: Dtype, moments: list[MomentLayout]) -> None: ...

class Rule: ...

def adamw_rule(
    *,
    factor: float,
    decay: float,
    beta1: float,
    alpha1: float,
    beta2: float,
    alpha2: float,
    rate: float,
    correction: float,
    eps: float,
) -> Rule: ...
def sgd_rule(
    *, factor: float, weight_decay: float, momentum: float, alpha: float, nesterov: bool, is_first: bool, lr: float
) -> Rule: ...
def gradient_squares(dtypes: list[Dtype], places: list[int], sums: int, run: Run) -> None: ...
def optimizer_step(layouts: list[Layout], places: list[int], rule: Rule, run: Run) -> None: ...
def counters_are(places: list[int], value: float) -> bool: ...
def advance_counters(places: list[int]) -> None: ...
def load_weight(*, kind: WeightKind, dtype: Dtype, weight: int, extra: int, n: int, values: int, run: Run) -> None: ...
def store_weight(
    *, kind: WeightKind, dtype: Dtype, weight: int, extra: int, n: int, values: int, random: Random, run: Run
) -> None: ...
def load_moment(
    *, layout: MomentLayout, stored: int, scales: int, powers: int, n: int, values: int, run: Run
) -> None: ...
def store_moment(
    *, layout: MomentLayout, stored: int, scales: int, powers: int, n: int, values: int, run: Run
) -> None: ...
