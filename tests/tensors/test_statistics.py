"""Host numbers of statistics: shares, ratios and what they are called where there is nothing to divide by."""

import math

import pytest
import torch
from torch import Tensor

from mixprec import kernels
from mixprec.tensors import TensorStatistics, error, read_statistics


def statistics(x: Tensor, *casts: str, seed: int = 0) -> tuple[TensorStatistics, ...]:
    ((read),) = read_statistics([kernels.statistics(x, casts, random=torch.tensor([seed, 0]))])
    return read


@pytest.mark.parametrize(
    "cast", ["bf16", "fp16", "e4m3", "e4m3[tensor]", "e5m2[row]", "mxfp8", "mxfp4", "nvfp4", "bf16 sr"]
)
def test_figures_are_those_of_error(cast: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(70, 130, generator=generator) * torch.exp(3.0 * torch.randn(70, 130, generator=generator))
    x = x.clamp(-6e4, 6e4)  # what overflows in fp16 makes an error infinite, and is left out here
    (mine,), row = statistics(x, cast, seed=3), error(x, cast, seed=3).rows[0]
    assert (mine.flushed, mine.saturated) == (row.flushed, row.saturated)
    assert math.isclose(mine.sqnr_db, row.snr_db, rel_tol=1e-12)


def test_shares_by_hand() -> None:
    """Powers of two in e4m3 by itself: 2^-10 is midway to its smallest number and goes to zero, 2^-9 to 2^-7 are
    subnormal, 512 saturates."""
    x = torch.tensor([0.0, 2.0**-10, 2.0**-9, -(2.0**-7), 2.0**-6, 1.0, -512.0, math.inf, math.nan, 456.0])
    (one,) = statistics(x, "e4m3")
    assert (one.elements, one.zeros, one.nonfinite, one.nans) == (10, 0.1, 2, 1)
    assert (one.amax, one.smallest) == (512.0, 2.0**-10)
    assert one.flushed == 1 / 7
    assert one.subnormal == 2 / 7
    assert one.saturated == 0.1  # 456 lies within half a step of 448
    assert one.unrepresented == 0
    assert dict(one.exponents) == {"-10": 1, "-9": 1, "-7": 1, "-6": 1, "0": 1, "8": 1, "9": 1}
    errors = [2.0**-10, 64.0, 8.0]
    magnitudes = sum(abs(n) for n in x.tolist() if math.isfinite(n))
    assert one.relative_error == sum(errors) / magnitudes
    assert one.bias == -sum(errors) / magnitudes


def test_an_overflow_is_told() -> None:
    (one,) = statistics(torch.tensor([1.0, 7e4, -7e4, 65504.0]), "fp16")
    assert one.unrepresented == 2
    assert one.saturated == 0.5
    lost = 7e4 - 65504.0  # to the largest number, as in a cast that saturates
    assert math.isclose(one.bias, -2 * lost / (1.0 + 2 * 7e4 + 65504.0), rel_tol=1e-12)
    assert one.relative_error == -one.bias
    assert math.isclose(one.sqnr_db, 10 * math.log10((1.0 + 2 * 7e4**2 + 65504.0**2) / (2 * lost**2)), rel_tol=1e-12)


def test_what_is_outside_under_a_scale_counts_as_the_largest_number_under_it() -> None:
    """A delayed scale made for 448: 2 stands for 2, and what overflows it is compared with 448."""
    raw = kernels.statistics(torch.tensor([2.0, -1000.0]), ["e4m3[tensor] delayed propagate"], amax=torch.tensor(448.0))
    ((one,),) = read_statistics([raw])
    assert (one.unrepresented, one.saturated) == (1, 0.5)
    assert one.bias == -552.0 / 1002.0


def test_a_tensor_without_casts_is_named_by_its_dtype() -> None:
    (one,) = statistics(torch.tensor([3.0, 4.0], dtype=torch.float16))
    assert one.cast == "fp16"
    assert (one.mean_magnitude, one.mean_square) == (3.5, 12.5)
    assert (one.flushed, one.subnormal, one.saturated, one.relative_error, one.bias) == (0.0,) * 5
    assert one.sqnr_db == math.inf


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_nothing_has_statistics(shape: tuple[int, ...]) -> None:
    for one in statistics(torch.empty(shape), "bf16", "e4m3[tensor]"):
        assert (one.elements, one.zeros, one.amax, one.smallest, one.mean_square) == (0, 0.0, 0.0, 0.0, 0.0)
        assert (one.flushed, one.saturated, one.relative_error, one.bias) == (0.0, 0.0, 0.0, 0.0)
        assert one.sqnr_db == math.inf
        assert one.exponents == {}


def test_zeros_lose_nothing() -> None:
    (one,) = statistics(torch.zeros(2, 32), "mxfp4")
    assert (one.zeros, one.relative_error, one.bias, one.sqnr_db) == (1.0, 0.0, 0.0, math.inf)


def test_where_nothing_can_be_compared_there_is_no_ratio() -> None:
    x = torch.ones(1, 8)
    x[0, 0] = math.nan
    (one,) = statistics(x, "e4m3[tensor]")
    assert (one.nonfinite, one.unrepresented) == (1, 7)
    assert math.isnan(one.sqnr_db)
    assert math.isnan(one.relative_error)
    assert math.isnan(one.bias)


def test_several_tensors_are_read_at_once() -> None:
    first, second = torch.ones(2, 3), torch.full((4,), 2.0)
    raws = [kernels.statistics(first), kernels.statistics(second, ["bf16", "fp16"])]
    read = read_statistics(raws)
    assert [[one.cast for one in of_tensor] for of_tensor in read] == [["fp32"], ["bf16", "fp16"]]
    assert read[1][1].amax == 2.0
    assert read_statistics([]) == ()


def test_the_share_of_a_gaussian_beyond_the_largest_number_is_the_published_one() -> None:
    """Under OCP's floor rule 2.3 % in E2M1 and 0.86 % in E4M3 lie beyond the largest number. Half a step further, where
    rounding to nearest would no longer bring them back, lie fewer."""
    x = torch.randn(2**14, 64, generator=torch.Generator().manual_seed(0))
    exponent = x.double().reshape(-1, 32).abs().amax(1, keepdim=True).log2().floor()
    for cast, top, largest, half_step, beyond, share in (
        ("mxfp4", 2, 6.0, 1.0, 0.023, 0.0086),
        ("mxfp8", 8, 448.0, 16.0, 0.0086, 0.0059),
    ):
        scaled = x.double().reshape(-1, 32).abs() * 2.0 ** (top - exponent)
        assert (scaled > largest).double().mean().item() == pytest.approx(beyond, rel=0.03)
        expected = (scaled > largest + half_step).double().mean().item()
        (one,) = statistics(x, cast)
        assert one.saturated == expected
        assert one.saturated == pytest.approx(share, abs=5e-4)
    (rceil,) = statistics(x, "mxfp8 rceil")
    assert rceil.saturated == 0.0


def test_stochastic_rounding_has_no_bias_and_truncation_has() -> None:
    x = torch.randn(2**18, generator=torch.Generator().manual_seed(0))
    nearest, stochastic, truncated = statistics(x, "e4m3", "e4m3 sr", "e4m3 rtz")
    assert abs(nearest.bias) < 1e-3
    assert abs(stochastic.bias) < 1e-3
    assert truncated.bias == -truncated.relative_error
    assert nearest.relative_error < stochastic.relative_error
