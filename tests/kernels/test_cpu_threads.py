"""The compiled kernels' numbers depend on neither the thread count nor the CPU's denormal modes."""

import os

import pytest
import torch

from mixprec.kernels import FIXED_SIGNS, Draw, Sums, cast_parameters, get_backend
from mixprec.kernels.cpu import CpuBackend, level_names
from mixprec.specs import parse_cast

from .test_cpu_levels import equal, ordinary, tiny

DRAW = Draw(5, 6, 2**62)
CASTS = [
    "bf16 sr",
    "e4m3[tensor]",
    "e4m3[row]",
    "mxfp8 sr",
    "nvfp4-2d",
    "nvfp4 sr rht16",
    "nvfp4 4/6",
    "int8[1x128:fp32]",
]


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("shape", [(1, 100_003), (331, 517), (40_000, 3)])
def test_threads(backend, threads, cast: str, shape: tuple[int, int]) -> None:
    parameters = cast_parameters(parse_cast(cast))
    x = ordinary(*shape)
    for axis in (0, 1):
        results = []
        for count in (1, 2, 3, 7):
            threads(count)
            results.append((*backend.scaled(x, parameters, axis, DRAW), *backend.quantize(x, parameters, axis, DRAW)))
        for other in results[1:]:
            assert all(equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_threads_of_the_other_methods(backend, threads) -> None:
    parameters, transformed, delayed = (
        cast_parameters(parse_cast(cast)) for cast in ("mxfp8 sr", "nvfp4 sr rht16", "e4m3[tensor] delayed")
    )
    x = ordinary(331, 517)
    results = []
    for count in (1, 4):
        threads(count)
        results.append(
            (
                *backend.scaled_both(x, parameters, parameters, (DRAW, DRAW)),
                *backend.scaled_quantized(x, parameters, transformed, (DRAW, DRAW)),
                *backend.delayed(x, delayed, DRAW, torch.tensor(2.0)),
                backend.amax(x),
                backend.hadamard(x, 32, FIXED_SIGNS, 1, False),
                backend.hadamard(x, 32, FIXED_SIGNS, 0, True),
                backend.narrow_product(x[:, :50], x[:50], Sums(mantissa_bits=9, rounding="nearest-even")),
            )
        )
    assert all(equal(a, b) for a, b in zip(*results, strict=True))


@pytest.fixture
def flushed_denormals():
    """The calling thread flushes denormals."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    "cast", ["bf16", "tf32 sr", "e4m3[tensor]", "e5m2[row]", "mxfp8", "nvfp4", "mxfp4 x3/4 ht16", "e4m3[1x32:fp32]"]
)
def test_flushing_denormals_changes_nothing(backend, flushed_denormals: None, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    x = tiny(70, 70)
    got = backend.scaled(x, parameters, 1, DRAW)
    assert (torch.ones(()) * 2.0**-149).item() == 0.0  # the mode is on, and still on after the kernel
    torch.set_flush_denormal(False)
    expected = get_backend("reference").scaled(x, parameters, 1, DRAW)
    assert all(equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_one_thread_survives_a_fork(threads) -> None:
    parameters = cast_parameters(parse_cast("mxfp8"))
    x = ordinary(512, 512)
    threads(2)
    CpuBackend().scaled(x, parameters, 1, DRAW)  # OpenMP's threads now exist, and a fork does not take them along
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        CpuBackend().scaled(x, parameters, 1, DRAW)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"level 'sse9': expected one of plain, avx2, avx512; available here: plain"):
        CpuBackend("sse9")  # pyright: ignore[reportArgumentType]


def test_the_best_level_is_the_default() -> None:
    assert CpuBackend()._level == CpuBackend(level_names()[-1])._level
