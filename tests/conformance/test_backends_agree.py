"""Every backend equals the reference bit for bit on many random patterns."""

import pytest
import torch

from mixprec.kernels import FIXED_SIGNS, Backend, Draw, SignKey, Sums, cast_parameters, get_backend
from mixprec.specs import parse_cast

from .patterns import random_fp32, same

DRAW, OTHER_DRAW = Draw(5, 11, 2**62 + 1), Draw(-5, 2**33, 2**62)
UNSCALED = [
    "bf16",
    "bf16 sr",
    "fp16",
    "tf32",
    "e4m3",
    "e4m3 sr propagate",
    "e4m3fnuz propagate",
    "e4m3-ieee sr",
    "e5m2",
    "e2m1",
    "e2m1 rtz",
    "int8 sr",
    "int4",
    "nf4 sr",
    "nf4 rtz",
]
SCALED = [
    "mxfp8",
    "mxfp8 rceil sr",
    "mxfp4",
    "mxfp6 even",
    "nvfp4",
    "nvfp4 sr",
    "nvfp4-2d",
    "e4m3[tensor]",
    "e4m3[row]",
    "e5m2fnuz[tensor:e8m0] ceil",
    "e4m3[row:e8m0] rceil x3/4 sr",
    "mxfp4 x3/4 sr rht32-fresh",
    "nvfp4 4/6",
    "nvfp4-2d 4/6 rht16",
    "e2m1[1x16:fp32] 4/6",
    "e4m3[1x128:fp32]",
    "e4m3[128x128:fp32] sr",
    "e2m1[1x16:ue5m3] sr",
    "e2m1[4x12:ue4m3*fp32] rtz",
    "nf4[1x64:fp32]",
    "int4[3x32:e8m0] even",
    "int8[row] sr rht64",
]


def wide_normal(rows: int, columns: int, seed: int) -> torch.Tensor:
    """Normal numbers whose blocks lie in different binades."""
    generator = torch.Generator().manual_seed(seed)
    binades = torch.randint(-30, 30, (rows, -(-columns // 16)), generator=generator).repeat_interleave(16, 1)
    return torch.randn(rows, columns, generator=generator) * 2.0 ** binades[:, :columns]


@pytest.fixture
def other(backend: Backend) -> Backend:
    if backend.name == "reference":
        pytest.skip("the reference is what the others are compared with")
    return backend


def check_round(other: Backend, cast: str, x: torch.Tensor) -> None:
    parameters = cast_parameters(parse_cast(cast))
    assert same(other.round(x, parameters, DRAW), get_backend("reference").round(x, parameters, DRAW))


@pytest.mark.parametrize("cast", UNSCALED)
def test_rounding_of_random_patterns(other: Backend, cast: str) -> None:
    check_round(other, cast, random_fp32(2**17 + 13, seed=8))


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", SCALED)
def test_scaled_casts_of_wide_matrices(other: Backend, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    reference = get_backend("reference")
    for shape in ((129, 333), (16, 1024), (257, 31)):
        x = wide_normal(*shape, seed=9)
        got = (*other.scaled(x, parameters, axis, DRAW), other.amax(x))
        right = (*reference.scaled(x, parameters, axis, DRAW), reference.amax(x))
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
        codes = reference.quantize(x, parameters, axis, DRAW)
        assert all(torch.equal(a, b) for a, b in zip(other.quantize(x, parameters, axis, DRAW), codes, strict=True))
        for outer in (codes[2], None):
            stored = (*codes[:2], outer, parameters, right[0].shape, axis)
            assert same(other.dequantize(*stored), reference.dequantize(*stored))


def test_casts_of_two_orientations(other: Backend) -> None:
    reference = get_backend("reference")
    x = wide_normal(300, 200, seed=12)
    for row, column in (
        ("nvfp4 4/6", "nvfp4 sr rht16"),
        ("e4m3[1x128:fp32]", "mxfp4 x3/4 sr rht32-fresh"),
        ("e4m3[row]", "e4m3[tensor]"),
    ):
        arguments = (x, *(cast_parameters(parse_cast(cast)) for cast in (row, column)), (DRAW, OTHER_DRAW))
        for method in ("scaled_both", "scaled_quantized"):
            got, right = getattr(other, method)(*arguments), getattr(reference, method)(*arguments)
            assert all(torch.equal(a, b) for a, b in zip(got, right, strict=True)), (method, row, column)


@pytest.mark.parametrize("cast", ["e4m3[tensor] delayed", "e5m2[tensor:e8m0] delayed(1,max,2) sr propagate"])
def test_delayed_scales(other: Backend, cast: str) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), wide_normal(129, 333, seed=13)
    for amax in (torch.tensor(0.0), x.abs().amax(), torch.tensor(0.01)):
        got = other.delayed(x, parameters, DRAW, amax)
        assert all(
            same(a, b) for a, b in zip(got, get_backend("reference").delayed(x, parameters, DRAW, amax), strict=True)
        )


@pytest.mark.parametrize("axis", [1, 0])
def test_transforms(other: Backend, axis: int) -> None:
    x = wide_normal(129, 333, seed=14)
    for size, signs, inverse in ((16, None, False), (128, FIXED_SIGNS, True), (64, SignKey(-1, 2**62 + 3), False)):
        right = get_backend("reference").hadamard(x, size, signs, axis, inverse)
        assert same(other.hadamard(x, size, signs, axis, inverse), right)


@pytest.mark.parametrize("promote_every", [0, 1, 7, 64])
@pytest.mark.parametrize("rounding", ["nearest-even", "toward-zero"])
def test_narrow_sums(other: Backend, rounding: str, promote_every: int) -> None:
    a, b = wide_normal(17, 190, seed=15), wide_normal(190, 23, seed=16)
    for mantissa_bits in (1, 13, 22):
        sums = Sums(mantissa_bits=mantissa_bits, rounding=rounding, promote_every=promote_every)  # type: ignore[arg-type]
        assert same(other.narrow_product(a, b, sums), get_backend("reference").narrow_product(a, b, sums))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_thread_count_does_not_matter(other: Backend, threads: int) -> None:
    before = torch.get_num_threads()
    x = wide_normal(300, 700, seed=10)
    parameters = cast_parameters(parse_cast("nvfp4 sr"))
    right = get_backend("reference").scaled(x, parameters, 1, DRAW)
    torch.set_num_threads(threads)
    try:
        got = other.scaled(x, parameters, 1, DRAW)
    finally:
        torch.set_num_threads(before)
    assert all(same(a, b) for a, b in zip(got, right, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("cast", ["bf16", "fp16", "e4m3", "e5m2", "e2m1", "bf16 sr"])
def test_rounding_of_16_million_patterns(other: Backend, cast: str) -> None:
    for part in range(8):
        check_round(other, cast, random_fp32(2**21, seed=100 + part))


@pytest.mark.slow
@pytest.mark.parametrize("cast", ["mxfp8 rceil", "mxfp4 sr", "nvfp4", "nvfp4 4/6", "e4m3[row]", "nf4[1x64:fp32]"])
def test_scaled_casts_of_16_million_patterns(other: Backend, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for part in range(8):
        x = random_fp32(2**21, seed=200 + part).reshape(2048, 1024)
        x = torch.where(x.isfinite(), x, 0.0)  # one fault would make every value of a tensor's scale NaN
        x = x if part % 2 else wide_normal(2048, 1024, seed=part)
        got = other.scaled(x, parameters, 1, DRAW)
        right = get_backend("reference").scaled(x, parameters, 1, DRAW)
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
