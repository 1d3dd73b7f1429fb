"""Every instruction set of the compiled kernels gives the reference's bits."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mixprec.formats import float_format
from mixprec.kernels import FIXED_SIGNS, Backend, CastParameters, Draw, SignKey, Sums, cast_parameters, get_backend
from mixprec.specs import Cast, Granularity, parse_cast

REFERENCE = get_backend("reference")
DRAW = Draw(-(2**40) - 7, 2**33 + 5, 2**62 + 9)
OTHER_DRAW = Draw(2**63 - 1, -(2**63), -1)
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
    "e4m3fnuz",
    "e5m2fnuz",
    "e4m3-ieee",
    "e5m6",
    "e8m3",
    "e7m2",
    "e4m1",
    "int4",
    "nf4",
]
SCALED = [
    "e4m3[tensor]",
    "e5m2[tensor] sr propagate",
    "e4m3[tensor:e8m0] even x3/4",
    "e4m3[row] rtz",
    "int8[row] sr",
    "e4m3[row:e8m0] rceil",
    "int8[row:e8m0] ceil x15/16 sr rht64",
    "e4m3[tensor] rht16-fresh",
    "mxfp8",
    "mxfp8 rceil sr",
    "mxfp6 ceil",
    "mxfp4 even",
    "mxint8 rceil",
    "e2m1[1x7:e8m0]",
    "e4m3[3x5:e8m0] sr",
    "e3m2[4x1:e8m0]",
    "e4m3[1x1:e8m0]",
    "e4m3[1x48:e8m0]",
    "e4m3[1x128:e8m0]",
    "e4m3[128x128:e8m0] rceil",
    "e4m3[1x128:fp32]",
    "e4m3[7x96:fp32] sr",
    "int4[1x33:fp32] sr",
    "nf4[1x64:fp32]",
    "nf4[2x16:e8m0] rtz",
    "nvfp4",
    "nvfp4 sr",
    "nvfp4-2d",
    "nvfp4 rht16",
    "nvfp4-2d sr rht32",
    "nvfp4 4/6",
    "nvfp4-2d 4/6 ht16",
    "e2m1[1x32:fp32] 4/6",
    "e2m1[3x5:ue5m3] 4/6",
    "e2m1[1x16:ue5m3] sr",
    "e2m1[4x12:ue4m3*fp32] rtz",
    "e3m2[1x8:e5m2*fp32]",
    "mxfp4 sr rht32",
    "mxfp4 x3/4 sr rht64-fresh",
    "e2m1[1x256:e8m0] rht128",
    "mxfp4 quest ht32",
    "e2m1[2x3:e8m0] quest x3/4 sr",
    "e2m1[1x5:e8m0] quest",
]
SHAPES = [(0, 5), (5, 0), (1, 1), (1, 31), (33, 3), (17, 70), (70, 130), (3, 1300), (1300, 3), (130, 260)]


def equal(a: Tensor, b: Tensor) -> bool:
    """The same shape, dtype and bits, up to the payload of a NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    same = a.contiguous().view(torch.int32) == b.contiguous().view(torch.int32)
    return bool((same | (a.isnan() & b.isnan())).all())


def agree(
    backends: Mapping[str, Backend], call: Callable[[Backend], Tensor | Sequence[Tensor]], *about: object
) -> None:
    """Every level gives the reference's bits, which is asked once."""
    expected = _several(call(REFERENCE))
    for level, backend in backends.items():
        for got, right in zip(_several(call(backend)), expected, strict=True):
            assert equal(got, right), (level, *about)


def _several(results: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return (results,) if isinstance(results, Tensor) else results


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
def test_unscaled(backends, element: str) -> None:
    for rounding, overflow in itertools.product(
        ("nearest-even", "stochastic", "toward-zero"), ("saturate", "propagate")
    ):
        cast = Cast(element=element, granularity=Granularity("none"), rounding=rounding, overflow=overflow)
        for make in DATA:
            x = make(3, 1111)
            agree(backends, lambda b, x=x, cast=cast: b.round(x, cast_parameters(cast), DRAW), rounding, overflow, make)


@pytest.mark.parametrize("cast", SCALED)
def test_scaled(backends, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for make, shape, axis in itertools.product(DATA, SHAPES[::2], (0, 1)):
        x = make(*shape)
        agree(backends, lambda b, x=x, axis=axis: b.scaled(x, parameters, axis, DRAW), make, shape, axis)


@pytest.mark.parametrize("cast", SCALED)
def test_codes(backends, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for make, shape, axis in itertools.product((patterns, ordinary), SHAPES[1::2], (0, 1)):
        x = make(*shape)
        stored = REFERENCE.quantize(x, parameters, axis, DRAW)
        for level, backend in backends.items():
            for got, expected in zip(backend.quantize(x, parameters, axis, DRAW), stored, strict=True):
                assert equal(got, expected), (level, make, shape, axis)
        matrix = REFERENCE.scaled(x, parameters, axis, DRAW)[0].shape
        for outer in (stored[2], None):
            arguments = (*stored[:2], outer, parameters, matrix, axis)
            agree(backends, lambda b, arguments=arguments: b.dequantize(*arguments), make, shape, axis)


@pytest.mark.parametrize("element", ELEMENTS)
def test_codes_of_every_width(backends, element: str) -> None:
    parameters = cast_parameters(Cast(element=element, granularity=Granularity("none"), overflow="propagate"))
    x = patterns(9, 77)
    for axis in (0, 1):
        stored = REFERENCE.quantize(x, parameters, axis, Draw())
        for level, backend in backends.items():
            assert equal(backend.quantize(x, parameters, axis, Draw())[0], stored[0]), level
        agree(backends, lambda b, stored=stored, axis=axis: b.dequantize(*stored, parameters, x.shape, axis), axis)


PAIRS = [
    ("mxfp8", "mxfp4 sr"),
    ("nvfp4 sr", "nvfp4 sr rht16"),
    ("nvfp4-2d", "e4m3[tensor]"),
    ("e4m3[row]", "e5m2[row:e8m0] ceil"),
    ("nvfp4 4/6", "mxfp4 x3/4 sr rht64-fresh"),
    ("e4m3[128x128:e8m0] rht16", "e4m3[1x128:fp32]"),
    ("e4m3[5x7:e8m0]", "bf16 sr"),
]


@pytest.mark.parametrize("method", ["scaled_both", "scaled_quantized"])
@pytest.mark.parametrize(("row", "column"), PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_both_orientations(backends, method: str, row: str, column: str, dtype: torch.dtype) -> None:
    casts = [cast_parameters(parse_cast(text)) for text in (row, column)]
    for make, shape in itertools.product((patterns, ordinary), SHAPES):
        arguments = (make(*shape).to(dtype), *casts, (DRAW, OTHER_DRAW))
        agree(backends, lambda b, arguments=arguments: getattr(b, method)(*arguments), make, shape)


@pytest.mark.parametrize("cast", ["e4m3[tensor] delayed", "e5m2[tensor:e8m0] ceil delayed(1,max,2) sr propagate"])
def test_delayed(backends, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for make, shape, amax in itertools.product(DATA, SHAPES[::3], (0.0, 2.0**-140, 1.5, 3e38)):
        arguments = (make(*shape), parameters, DRAW, torch.tensor(amax))
        agree(backends, lambda b, arguments=arguments: b.delayed(*arguments), make, shape, amax)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_transform(backends, size: int) -> None:
    keys = (None, FIXED_SIGNS, SignKey(-3, 2**62 + 5))
    for make, shape, axis in itertools.product((finite, ordinary, tiny), SHAPES, (0, 1)):
        for signs, inverse in itertools.product(keys, (False, True)):
            arguments = (make(*shape), size, signs, axis, inverse)
            agree(backends, lambda b, arguments=arguments: b.hadamard(*arguments), make, shape, axis, signs, inverse)


@pytest.mark.parametrize("promote_every", [0, 1, 16, 33])
@pytest.mark.parametrize("rounding", ["nearest-even", "toward-zero"])
def test_narrow_product(backends, rounding, promote_every: int) -> None:
    for (m, k, n), bits, make in itertools.product(
        ((0, 3, 2), (2, 0, 3), (1, 1, 1), (5, 64, 70), (9, 33, 31)), (1, 13, 22), (patterns, ordinary)
    ):
        a, b = make(m, k), make(k, n + 1)[:, :n]
        sums = Sums(mantissa_bits=bits, rounding=rounding, promote_every=promote_every)
        arguments = (a, b, sums)
        agree(backends, lambda one, arguments=arguments: one.narrow_product(*arguments), m, k, n, bits, make)
    half = ordinary(5, 7).to(torch.bfloat16)
    agree(backends, lambda one: one.narrow_product(half, half.T, sums))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_pattern_is_widened(backend, dtype: torch.dtype) -> None:
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    identity = cast_parameters(Cast(element="fp32", granularity=Granularity("none"), overflow="propagate"))
    assert equal(backend.round(x, identity, Draw()), x.float())


def test_amax(backends) -> None:
    for make, shape in itertools.product(DATA, SHAPES):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            x = make(*shape).to(dtype)
            agree(backends, lambda b, x=x: b.amax(x), make, shape)


def _parameters_of(exponent_bits: int, mantissa_bits: int, bias: int, rounding: str) -> CastParameters:
    """A grid that is in no catalog."""
    fmt = float_format(exponent_bits, mantissa_bits, bias=bias, nan="ieee" if mantissa_bits else "none")
    parameters = cast_parameters(Cast(element="e5m2", granularity=Granularity("none"), rounding=rounding))
    grid = replace(
        parameters.grid,
        mantissa_bits=mantissa_bits,
        min_exponent=fmt.min_exponent,
        max_exponent=fmt.max_exponent,
        max_value=fmt.max_value,
        overflow_value=fmt.max_value,
        infinity_value=fmt.max_value,
    )
    return replace(parameters, grid=grid)


@pytest.mark.parametrize("rounding", ["nearest-even", "stochastic", "toward-zero"])
@pytest.mark.parametrize(
    ("exponent_bits", "mantissa_bits", "bias"), [(8, 4, 140), (4, 0, 7), (8, 22, 127), (3, 20, -90), (6, 2, 120)]
)
def test_grids_at_the_ends_of_fp32(backends, exponent_bits: int, mantissa_bits: int, bias: int, rounding: str) -> None:
    parameters = _parameters_of(exponent_bits, mantissa_bits, bias, rounding)
    for make in DATA:
        x = make(2, 1000)
        agree(backends, lambda b, x=x: b.round(x, parameters, DRAW), make)


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
        same = x.contiguous()
        assert equal(backend.scaled(x, parameters, 1, DRAW)[0], backend.scaled(same, parameters, 1, DRAW)[0])
        assert equal(backend.amax(x), backend.amax(same))
        assert equal(backend.hadamard(x, 16, FIXED_SIGNS, 0, False), backend.hadamard(same, 16, FIXED_SIGNS, 0, False))


def test_the_input_is_left_alone(backend) -> None:
    x = ordinary(64, 64)
    before = x.clone()
    backend.scaled_both(x, *(cast_parameters(parse_cast("nvfp4 sr rht16")),) * 2, (DRAW, DRAW))
    assert torch.equal(x, before)


def test_results_can_go_into_given_tensors(backend) -> None:
    x, y, z = ordinary(70, 66), torch.empty(70, 66), torch.empty(70, 66)
    bf16, mxfp8 = cast_parameters(parse_cast("bf16")), cast_parameters(parse_cast("mxfp8"))
    draws = (DRAW, DRAW)
    assert backend.round(x, bf16, DRAW, out=y) is y
    assert equal(y, backend.round(x, bf16, DRAW))
    assert backend.scaled(x, mxfp8, 0, DRAW, out=y)[0] is y
    assert equal(y, backend.scaled(x, mxfp8, 0, DRAW)[0])
    assert backend.scaled_both(x, mxfp8, mxfp8, draws, out=(y, z))[2] is z
    assert backend.scaled_quantized(x, mxfp8, mxfp8, draws, out=y)[0] is y
    assert equal(y, backend.scaled(x, mxfp8, 1, DRAW)[0])
    stored = backend.quantize(x, mxfp8, 1, DRAW)
    assert backend.dequantize(*stored, mxfp8, (70, 66), 1, out=z) is z
    assert equal(z, y)


def test_transformed_results_go_into_padded_tensors(backend) -> None:
    x, y = ordinary(70, 66), torch.empty(80, 66)
    cast = cast_parameters(parse_cast("nvfp4 sr rht16"))
    assert backend.scaled(x, cast, 0, DRAW, out=y)[0] is y
    assert equal(y, REFERENCE.scaled(x, cast, 0, DRAW)[0])
    assert backend.hadamard(x, 16, None, 0, False, out=y) is y
    assert equal(y, REFERENCE.hadamard(x, 16, None, 0, False))


def test_tensors_that_results_do_not_fit_are_refused(backend) -> None:
    x, bf16 = ordinary(70, 66), cast_parameters(parse_cast("bf16"))
    with pytest.raises(
        ValueError, match=r"out is \[66, 70\] .*: expected a contiguous fp32 tensor of shape \[70, 66\]"
    ):
        backend.round(x, bf16, DRAW, out=torch.empty(66, 70))
    with pytest.raises(ValueError, match="out shares its memory with x"):
        backend.round(x, bf16, DRAW, out=x)


def test_large_results_bypass_the_caches(backends) -> None:
    x = ordinary(1031, 4100)  # beyond 16 MiB of fp32; rows end within a cache line
    mxfp8, nvfp4 = (cast_parameters(parse_cast(cast)) for cast in ("mxfp8 sr", "nvfp4 rht16"))
    expected = REFERENCE.scaled_both(x, nvfp4, mxfp8, (DRAW, OTHER_DRAW))
    for level, backend in backends.items():
        results = backend.scaled_both(x, nvfp4, mxfp8, (DRAW, OTHER_DRAW))
        assert all(equal(got, right) for got, right in zip(results, expected, strict=True)), level
        stored = backend.quantize(x, mxfp8, 0, OTHER_DRAW)
        assert equal(backend.dequantize(*stored, mxfp8, x.shape, 0), results[2]), level
