"""Every instruction set of the compiled kernels gives the reference's bits."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mixprec.formats import float_format
from mixprec.kernels import CastParameters, cast_parameters, get_backend
from mixprec.specs import Cast, Granularity, parse_cast

REFERENCE = get_backend("reference")
SEED, OFFSET = -(2**40) - 7, 2**33 + 5
ELEMENTS = [
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "e5m2",
    "e4m3",
    "e3m2",
    "e2m3",
    "e2m1",
    "int8",
    "e5m6",
    "e8m3",
    "e7m2",
    "e4m1",
]
SCALED = [
    "e4m3[tensor]",
    "e5m2[tensor] sr",
    "e4m3[row] rtz",
    "int8[row] sr",
    "mxfp8",
    "mxfp8 rceil sr",
    "mxfp6 ceil",
    "mxfp4 even",
    "mxint8 rceil",
    "e2m1[1x7:e8m0]",
    "e4m3[3x5:e8m0] sr",
    "e3m2[4x1:e8m0]",
    "e4m3[1x128:e8m0]",
    "nvfp4",
    "nvfp4 sr",
    "nvfp4-2d",
    "nvfp4 rht16",
    "mxfp4 sr rht32",
]
SHAPES = [(0, 5), (5, 0), (1, 1), (1, 31), (33, 3), (17, 70), (70, 130), (3, 1300), (1300, 3)]


def equal(a: Tensor, b: Tensor) -> bool:
    """The same shape, dtype and bits, up to the payload of a NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    same = a.contiguous().view(torch.int32) == b.contiguous().view(torch.int32)
    return bool((same | (a.isnan() & b.isnan())).all())


def patterns(*shape: int) -> Tensor:
    """Random fp32 bit patterns: all exponents, infinities and NaNs."""
    bits = torch.randint(-(2**31), 2**31 - 1, shape, generator=torch.Generator().manual_seed(1))
    return bits.to(torch.int32).view(torch.float32)


def finite(*shape: int) -> Tensor:
    x = patterns(*shape)
    return torch.where(x.isfinite(), x, -0.0)


def tiny(*shape: int) -> Tensor:
    """Around the smallest normal fp32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)) * 2.0**-128


def ordinary(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def ties(*shape: int) -> Tensor:
    return torch.randint(-99, 99, shape, generator=torch.Generator().manual_seed(4)).float() / 16


DATA = [patterns, finite, tiny, ordinary, ties]


@pytest.mark.parametrize("element", ELEMENTS)
def test_unscaled(backend, element: str) -> None:
    for rounding, overflow in itertools.product(
        ("nearest-even", "stochastic", "toward-zero"), ("saturate", "propagate")
    ):
        cast = Cast(element=element, granularity=Granularity("none"), rounding=rounding, overflow=overflow)
        for make in DATA:
            x = make(3, 1111)
            expected = REFERENCE.round(x, cast_parameters(cast), SEED, OFFSET)
            assert equal(backend.round(x, cast_parameters(cast), SEED, OFFSET), expected), (rounding, overflow, make)


@pytest.mark.parametrize("cast", SCALED)
def test_scaled(backend, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for make, shape, axis in itertools.product(DATA, SHAPES[::2], (0, 1)):
        x = make(*shape)
        results = backend.scaled(x, parameters, axis, SEED, OFFSET)
        for got, expected in zip(results, REFERENCE.scaled(x, parameters, axis, SEED, OFFSET), strict=True):
            assert equal(got, expected), (make, shape, axis)


@pytest.mark.parametrize("cast", SCALED)
def test_codes(backend, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for make, shape, axis in itertools.product((patterns, ordinary), SHAPES[1::2], (0, 1)):
        x = make(*shape)
        stored = REFERENCE.quantize(x, parameters, axis, SEED, OFFSET)
        for got, expected in zip(backend.quantize(x, parameters, axis, SEED, OFFSET), stored, strict=True):
            assert equal(got, expected), (make, shape, axis)
        matrix = REFERENCE.scaled(x, parameters, axis, SEED, OFFSET)[0].shape
        expected = REFERENCE.dequantize(*stored, parameters, matrix, axis)
        assert equal(backend.dequantize(*stored, parameters, matrix, axis), expected), (make, shape, axis)


@pytest.mark.parametrize("element", ELEMENTS)
def test_codes_of_every_width(backend, element: str) -> None:
    parameters = cast_parameters(Cast(element=element, granularity=Granularity("none"), overflow="propagate"))
    x = patterns(9, 77)
    for axis in (0, 1):
        stored = REFERENCE.quantize(x, parameters, axis, 0, 0)
        assert equal(backend.quantize(x, parameters, axis, 0, 0)[0], stored[0])
        expected = REFERENCE.dequantize(*stored, parameters, x.shape, axis)
        assert equal(backend.dequantize(*stored, parameters, x.shape, axis), expected)


@pytest.mark.parametrize(("row", "column"), [("mxfp8", "mxfp4 sr"), ("nvfp4 sr", "nvfp4-2d"), ("e4m3[row]", "mxfp8")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_both_orientations(backend, row: str, column: str, dtype: torch.dtype) -> None:
    first, second = cast_parameters(parse_cast(row)), cast_parameters(parse_cast(column))
    for make, shape in itertools.product((patterns, ordinary), SHAPES):
        x = make(*shape).to(dtype)
        results = backend.scaled_both(x, first, second, SEED, OFFSET)
        for got, expected in zip(results, REFERENCE.scaled_both(x, first, second, SEED, OFFSET), strict=True):
            assert equal(got, expected), (make, shape)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_transform(backend, size: int) -> None:
    for make, shape, axis in itertools.product((finite, ordinary, tiny), SHAPES, (0, 1)):
        for signs, inverse in itertools.product((False, True), repeat=2):
            x = make(*shape)
            expected = REFERENCE.hadamard(x, size, signs, axis, inverse)
            assert equal(backend.hadamard(x, size, signs, axis, inverse), expected), (make, shape, axis, signs, inverse)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_pattern_is_widened(backend, dtype: torch.dtype) -> None:
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    identity = cast_parameters(Cast(element="fp32", granularity=Granularity("none"), overflow="propagate"))
    assert equal(backend.round(x, identity, 0, 0), x.float())


def test_amax(backend) -> None:
    for make, shape in itertools.product(DATA, SHAPES):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            x = make(*shape).to(dtype)
            assert equal(backend.amax(x), REFERENCE.amax(x)), (make, shape)


def _parameters_of(exponent_bits: int, mantissa_bits: int, bias: int, rounding: str) -> CastParameters:
    """A grid that is in no catalog."""
    fmt = float_format(exponent_bits, mantissa_bits, bias=bias, nan="ieee" if mantissa_bits else "none")
    parameters = cast_parameters(Cast(element="e5m2", granularity=Granularity("none"), rounding=rounding))
    return replace(
        parameters,
        mantissa_bits=mantissa_bits,
        min_exponent=fmt.min_exponent,
        max_exponent=fmt.max_exponent,
        max_value=fmt.max_value,
        overflow_value=fmt.max_value,
        infinity_value=fmt.max_value,
    )


@pytest.mark.parametrize("rounding", ["nearest-even", "stochastic", "toward-zero"])
@pytest.mark.parametrize(
    ("exponent_bits", "mantissa_bits", "bias"), [(8, 4, 140), (4, 0, 7), (8, 22, 127), (3, 20, -90), (6, 2, 120)]
)
def test_grids_at_the_ends_of_fp32(backend, exponent_bits: int, mantissa_bits: int, bias: int, rounding: str) -> None:
    parameters = _parameters_of(exponent_bits, mantissa_bits, bias, rounding)
    for make in DATA:
        x = make(2, 1000)
        assert equal(backend.round(x, parameters, SEED, OFFSET), REFERENCE.round(x, parameters, SEED, OFFSET)), make


def test_random_words_beyond_32_bits_of_counter(backend) -> None:
    from mixprec.kernels.cpu import _native
    from mixprec.kernels.reference._philox import element_words

    n = 4097
    words = torch.empty(n, dtype=torch.int32)
    for seed, offset in ((0, 0), (2**63 + 11, 2**64 - 1)):
        _native.random_words(_native.Random(seed, offset), n, words.data_ptr(), backend._run())
        signed = (seed - 2**64 if seed >= 2**63 else seed, offset - 2**64 if offset >= 2**63 else offset)
        assert torch.equal(words.long() & 0xFFFFFFFF, element_words(n, *signed, torch.device("cpu")))


def test_strides_do_not_matter(backend) -> None:
    parameters = cast_parameters(parse_cast("mxfp8 sr"))
    base = ordinary(70, 66)
    views: list[Callable[[Tensor], Tensor]] = [lambda x: x.T, lambda x: x[::2, 1::3], lambda x: x[:1].expand(40, 66)]
    for view in views:
        x = view(base)
        assert equal(backend.scaled(x, parameters, 1, 1, 2)[0], backend.scaled(x.contiguous(), parameters, 1, 1, 2)[0])
        assert equal(backend.amax(x), backend.amax(x.contiguous()))
        assert equal(backend.hadamard(x, 16, True, 0, False), backend.hadamard(x.contiguous(), 16, True, 0, False))


def test_the_input_is_left_alone(backend) -> None:
    x = ordinary(64, 64)
    before = x.clone()
    backend.scaled_both(x, *(cast_parameters(parse_cast("nvfp4 sr")),) * 2, 1, 2)
    assert torch.equal(x, before)


def test_results_can_go_into_given_tensors(backend) -> None:
    x, y, z = ordinary(70, 66), torch.empty(70, 66), torch.empty(70, 66)
    bf16, mxfp8 = cast_parameters(parse_cast("bf16")), cast_parameters(parse_cast("mxfp8"))
    assert backend.round(x, bf16, 0, 0, out=y) is y
    assert equal(y, backend.round(x, bf16, 0, 0))
    assert backend.scaled(x, mxfp8, 0, 0, 0, out=y)[0] is y
    assert equal(y, backend.scaled(x, mxfp8, 0, 0, 0)[0])
    assert backend.scaled_both(x, mxfp8, mxfp8, 0, 0, out=(y, z))[2] is z
    with pytest.raises(
        ValueError, match=r"out is \[66, 70\] .*: expected a contiguous fp32 tensor of shape \[70, 66\]"
    ):
        backend.round(x, bf16, 0, 0, out=torch.empty(66, 70))
    with pytest.raises(ValueError, match="out shares its memory with x"):
        backend.round(x, bf16, 0, 0, out=x)
