"""Statistics: every backend and instruction set gives the reference's bits, which are what fp64 arithmetic gives."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mixprec import kernels
from mixprec.formats import get_format
from mixprec.kernels import CAST_COUNTS, CAST_NUMBERS, Backend, Draw, Probe, StatisticsBackend, cast_parameters
from mixprec.kernels.cpu import CpuBackend, level_names
from mixprec.specs import parse_cast

from .patterns import random_fp32

RANDOM = torch.tensor([5, 11])
DRAW = Draw(-(2**40) - 7, 2**33 + 5, 2**62 + 9)
CASTS = [
    "bf16",
    "fp16",
    "fp32",
    "tf32",
    "e8m3",
    "int8",
    "nf4",
    "e4m3",
    "e4m3 propagate",
    "e4m3fnuz",
    "e5m2 rtz propagate",
    "bf16 sr",
    "e4m3[tensor]",
    "e5m2[tensor] sr propagate",
    "e4m3[tensor:e8m0] even x3/4",
    "e4m3[row] rtz",
    "int8[row] sr",
    "mxfp8",
    "mxfp6",
    "mxfp4 even",
    "mxint8 rceil",
    "mxfp4 quest",
    "e4m3[1x48:e8m0]",
    "e3m2[3x5:e8m0]",
    "e4m3[128x128:e8m0] rceil",
    "e4m3[1x20:fp32]",
    "nf4[1x64:fp32]",
    "nvfp4",
    "nvfp4-2d sr",
    "nvfp4 4/6",
    "nvfp4 sr rht16",
    "mxfp4 x3/4 sr rht64-fresh",
    "e4m3[tensor] delayed",
    "e5m2[tensor] delayed(16) sr propagate",
]
WHAT_IF = ("e4m3[tensor]", "e5m2[tensor]", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "bf16", "fp16")


def normal(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def wide(shape: tuple[int, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator) * torch.exp(12.0 * torch.randn(shape, generator=generator))


def bits(shape: tuple[int, ...]) -> Tensor:
    """All exponents, infinities and NaN."""
    return random_fp32(math.prod(shape), 2).reshape(shape)


def broken(shape: tuple[int, ...]) -> Tensor:
    """Zeros of both signs, and few infinities and NaN, so that some chunks and tiles have none."""
    x = normal(shape)
    places = torch.rand(shape, generator=torch.Generator().manual_seed(3))
    x[places < 0.3] = -0.0
    x[places > 0.999] = math.inf
    x[(places > 0.998) & (places <= 0.999)] = math.nan
    return x


def half(shape: tuple[int, ...]) -> Tensor:
    return (normal(shape) * 1e-4).half()


def brain(shape: tuple[int, ...]) -> Tensor:
    return wide(shape).bfloat16()


INPUTS = (normal, wide, bits, broken, half, brain)
SHAPES = ((1, 1), (7, 33), (64, 96), (5, 2050), (130, 257), (2, 1024), (0, 4), (3, 0))


def probe(cast: str, amax: float | None = None) -> Probe:
    return Probe(cast_parameters(parse_cast(cast)), DRAW, None if amax is None else torch.tensor(amax))


def same(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1].view(torch.int64), b[1].view(torch.int64))


@pytest.mark.parametrize("make", INPUTS, ids=lambda make: make.__name__)
def test_levels_give_the_bits_of_the_reference(make: Callable[[tuple[int, ...]], Tensor]) -> None:
    reference, compiled = kernels.get_backend("reference"), {level: CpuBackend(level) for level in level_names()}
    assert isinstance(reference, StatisticsBackend)
    assert compiled
    probes = [probe(cast) for cast in CASTS] + [probe("e4m3[tensor] delayed", amax) for amax in (0.0, 0.25)]
    for shape in SHAPES:
        x = make(shape)
        for axis in (1, 0):
            right = reference.statistics(x, probes, axis)
            for level, backend in compiled.items():
                assert same(backend.statistics(x, probes, axis), right), (level, shape, axis)


def test_a_backend_gives_the_bits_of_the_reference(backend: Backend) -> None:
    if not isinstance(backend, StatisticsBackend):
        pytest.skip(f"{backend.name} leaves statistics to the reference")
    reference = kernels.get_backend("reference")
    assert isinstance(reference, StatisticsBackend)
    x = broken((65, 100))
    probes = [probe(cast) for cast in WHAT_IF]
    assert same(backend.statistics(x, probes, 1), reference.statistics(x, probes, 1))


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    x, probes = broken((150, 1000)), [probe(cast) for cast in (*WHAT_IF, "bf16 sr")]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = CpuBackend().statistics(x, probes, 1)
        torch.set_num_threads(threads)
        assert same(CpuBackend().statistics(x, probes, 1), one)
    finally:
        torch.set_num_threads(before)


def test_many_casts_are_each_as_alone() -> None:
    x = wide((40, 130))
    together = kernels.statistics(x, CASTS, random=RANDOM)
    for i, cast in enumerate(CASTS):
        alone = kernels.statistics(x, [cast], random=RANDOM)
        counts, numbers = len(CAST_COUNTS), len(CAST_NUMBERS)
        assert torch.equal(alone.counts[-counts:], together.counts[260 + i * counts :][:counts]), cast
        assert torch.equal(alone.numbers[-numbers:], together.numbers[4 + i * numbers :][:numbers]), cast


def values_and_elements(x: Tensor, cast: str, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """What is rounded, its value after the cast and its element, by the casting functions; fp64."""
    parsed = parse_cast(cast)
    carrier, outer = kernels.scaled(x, cast, axis=axis, random=RANDOM)
    codes, _, _ = kernels.quantize(x, cast, axis=axis, random=RANDOM)
    before = x.float()
    if parsed.transform:
        before = kernels.hadamard(before, parsed.transform, signs=parsed.signs, axis=axis, random=RANDOM)
    no_scales = torch.empty(0, dtype=torch.uint8)
    elements = kernels.dequantize(codes, no_scales, None, parsed.element, before.shape, axis=axis)
    if outer.ndim and parsed.granularity.kind == "block":
        tile = cast_parameters(parsed).matrix_tile(axis)
        outer = outer.repeat_interleave(tile[0], 0).repeat_interleave(tile[1], 1)[: x.shape[0], : x.shape[1]]
    return before.double(), (carrier * outer).double(), elements.double()


FINITE = [cast for cast in CASTS if "delayed" not in cast]


@pytest.mark.parametrize("cast", FINITE)
@pytest.mark.parametrize("make", [normal, wide, half])
def test_statistics_are_those_of_fp64_arithmetic(cast: str, make: Callable[[tuple[int, ...]], Tensor]) -> None:
    """Of the same rounding that the casting functions do, its random bits included; sums in torch's order."""
    x = make((37, 129))
    fmt = get_format(parse_cast(cast).element)
    for axis in (1, 0):
        raw = kernels.statistics(x, [cast], axis=axis, random=RANDOM)
        y, v, q = values_and_elements(x, cast, axis)
        compared = v.isfinite()
        unscaled = parse_cast(cast).granularity.kind == "none"
        half_step = 2.0 ** (fmt.max_exponent - fmt.mantissa_bits - 1)
        high, low = (fmt.grid[-1], fmt.grid[0]) if fmt.grid else (fmt.max_value, -fmt.max_value)
        half_step = (fmt.grid[-1] - fmt.grid[-2]) / 2 if fmt.grid else half_step
        reach = torch.where(q < 0, -low, high)
        beyond = (q.abs() == reach) & (y.abs() * reach > v.abs() * (reach + half_step)) & compared
        normal_from = 2.0**fmt.min_exponent if fmt.kind == "float" else 0.0
        counts = [
            y.numel(),
            (y != 0).sum().item(),
            ((y != 0) & (q == 0)).sum().item(),
            ((q != 0) & (q.abs() < normal_from) & compared).sum().item(),
            (beyond.sum() + ((~compared).sum() if unscaled else 0)).item(),
            (~compared).sum().item(),
        ]
        assert raw.counts[-6:].tolist() == counts
        # What a cast without a scale overflows counts as its largest number.
        v = torch.where(compared, v, y.sign() * high)
        d = v - y
        sums = [y.abs().sum(), (y * y).sum(), (d * d).sum(), d.abs().sum()]
        torch.testing.assert_close(raw.numbers[-5:-1], torch.stack(sums), rtol=1e-12, atol=0.0)
        bias = (d * y.sign()).sum().item()
        assert math.isclose(raw.numbers[-1].item(), bias, rel_tol=1e-12, abs_tol=1e-13 * sums[3].item())


@pytest.mark.parametrize("make", INPUTS)
def test_a_tensor_is_counted_one_by_one(make: Callable[[tuple[int, ...]], Tensor]) -> None:
    """By Python's own numbers."""
    x = make((13, 301))
    raw = kernels.statistics(x)
    numbers = x.double().flatten().tolist()
    finite = [abs(n) for n in numbers if math.isfinite(n)]
    nonzero = [n for n in finite if n]
    assert raw.counts[:4].tolist() == [
        len(numbers),
        numbers.count(0.0),
        sum(map(math.isnan, numbers)),
        sum(map(math.isinf, numbers)),
    ]
    places = [0] * 256
    for n in numbers:
        # frexp's significand lies in [0.5, 1), so that its exponent is one more than IEEE's.
        exponent = 128 if not math.isfinite(n) else -127 if n == 0 else max(math.frexp(n)[1] - 1, -127)
        places[exponent + 127] += 1
    assert raw.counts[4:].tolist() == places
    assert raw.numbers[0].item() == max(finite)
    assert raw.numbers[1].item() == min(nonzero)
    assert math.isclose(raw.numbers[2].item(), math.fsum(finite), rel_tol=1e-13)
    assert math.isclose(raw.numbers[3].item(), math.fsum(n * n for n in finite), rel_tol=1e-13)


def test_sums_are_added_by_halving() -> None:
    """Chunks of 1,024 with zeros after the end, then their results; by Python's additions."""
    x = wide((3, 1111))
    terms = [n * n for n in x.double().flatten().tolist()]
    chunks = [by_halving(terms[i : i + 1024] + [0.0] * (1024 - len(terms[i : i + 1024]))) for i in range(0, 3333, 1024)]
    raw = kernels.statistics(x)
    assert raw.numbers[3].item() == by_halving(chunks)
    assert raw.numbers[3].item() == kernels.gradient_squares([x])[0].item()


def by_halving(terms: list[float]) -> float:
    while len(terms) > 1:
        half_way = len(terms) // 2
        terms = [a + b for a, b in zip(terms[:half_way], terms[half_way:], strict=True)]
    return terms[0]


def test_a_given_amax_is_what_a_delayed_cast_is_made_for() -> None:
    x, amax = normal((16, 48)), torch.tensor(1.5)
    cast = "e4m3[tensor] delayed"
    carrier, outer, _ = kernels.delayed(x, cast, amax)
    raw = kernels.statistics(x, [cast], amax=amax)
    error = (carrier * outer).double() - x.double()
    assert math.isclose(raw.numbers[-3].item(), (error * error).sum().item(), rel_tol=1e-12)
    # The largest element stands for 1.5, and half a step more for 1.5 * 464 / 448.
    assert raw.counts[-2].item() == (x.abs() > 1.5 * 464 / 448).sum().item() > 0


def test_one_nan_is_left_out_and_its_scale_is_told() -> None:
    x = torch.ones(2, 64)
    x[0, 3] = math.nan
    of_block = kernels.statistics(x, ["mxfp8"])
    assert of_block.counts[-6:].tolist() == [128, 127, 0, 0, 0, 31]
    assert of_block.numbers[-5:].tolist() == [96.0, 96.0, 0.0, 0.0, 0.0]
    of_tensor = kernels.statistics(x, ["e4m3[tensor]"])
    assert of_tensor.counts[-6:].tolist() == [128, 127, 0, 0, 0, 127]
    assert of_tensor.numbers[-5:].tolist() == [0.0] * 5
