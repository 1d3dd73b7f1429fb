"""Every backend equals the reference bit for bit on many random patterns."""

import pytest
import torch

from mixprec.kernels import Backend, cast_parameters, get_backend
from mixprec.specs import parse_cast

from .patterns import random_fp32, same

SEED, OFFSET = 5, 11
UNSCALED = ["bf16", "bf16 sr", "fp16", "tf32", "e4m3", "e4m3 sr propagate", "e5m2", "e2m1", "e2m1 rtz", "int8 sr"]
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
    assert same(other.round(x, parameters, SEED, OFFSET), get_backend("reference").round(x, parameters, SEED, OFFSET))


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
        got = (*other.scaled(x, parameters, axis, SEED, OFFSET), other.amax(x))
        right = (*reference.scaled(x, parameters, axis, SEED, OFFSET), reference.amax(x))
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
        codes = other.quantize(x, parameters, axis, SEED, OFFSET)
        right = reference.quantize(x, parameters, axis, SEED, OFFSET)
        assert all(torch.equal(a, b) for a, b in zip(codes, right, strict=True))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_thread_count_does_not_matter(other: Backend, threads: int) -> None:
    before = torch.get_num_threads()
    x = wide_normal(300, 700, seed=10)
    parameters = cast_parameters(parse_cast("nvfp4 sr"))
    right = get_backend("reference").scaled(x, parameters, 1, SEED, OFFSET)
    torch.set_num_threads(threads)
    try:
        got = other.scaled(x, parameters, 1, SEED, OFFSET)
    finally:
        torch.set_num_threads(before)
    assert all(same(a, b) for a, b in zip(got, right, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("cast", ["bf16", "fp16", "e4m3", "e5m2", "e2m1", "bf16 sr"])
def test_rounding_of_16_million_patterns(other: Backend, cast: str) -> None:
    for part in range(8):
        check_round(other, cast, random_fp32(2**21, seed=100 + part))


@pytest.mark.slow
@pytest.mark.parametrize("cast", ["mxfp8 rceil", "mxfp4 sr", "nvfp4", "e4m3[row]"])
def test_scaled_casts_of_16_million_patterns(other: Backend, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for part in range(8):
        x = random_fp32(2**21, seed=200 + part).reshape(2048, 1024)
        x = torch.where(x.isfinite(), x, 0.0)  # one fault would make every value of a tensor's scale NaN
        x = x if part % 2 else wide_normal(2048, 1024, seed=part)
        got = other.scaled(x, parameters, 1, SEED, OFFSET)
        right = get_backend("reference").scaled(x, parameters, 1, SEED, OFFSET)
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
