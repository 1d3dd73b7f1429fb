"""The table of what casts do to a tensor."""

import math

import pytest
import torch

from mixprec.tensors import error, fake_quantize, tree_sum


def sample() -> torch.Tensor:
    return torch.randn(64, 100, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "cast",
    [
        "mxfp8",
        "nvfp4 sr",
        "e4m3[tensor]",
        "bf16",
        "mxfp4 rht32",
        "nvfp4 4/6",
        "nf4[1x64:fp32]",
        "mxfp4 x3/4 sr rht64-fresh",
    ],
)
def test_figures_are_those_of_fake_quantize(cast: str) -> None:
    x = sample()
    row = error(x, [cast]).rows[0]
    difference = fake_quantize(x, cast).double() - x.double()
    noise = difference.square().mean().item()
    assert row.cast == cast
    assert row.mean_squared_error == pytest.approx(noise, rel=1e-12)
    assert row.snr_db == pytest.approx(10 * math.log10(x.double().square().mean().item() / noise), rel=1e-12)
    assert row.max_relative_error == (difference / x.double()).abs().max().item()


def test_flushed_and_saturated_shares() -> None:
    x = torch.tensor([[7.9, 6.2, 1.0, 0.2, -0.1, 0.0]])  # the floor rule's scale is 1: the largest is 6
    row = error(x, ["mxfp4"]).rows[0]
    assert row.flushed == pytest.approx(2 / 5)
    assert row.saturated == pytest.approx(1 / 6)  # 6.2 rounds to 6 as it would if the exponent went on
    assert error(x, ["mxfp4 rceil"]).rows[0].saturated == 0.0
    overflowing = torch.tensor([1e5, 1.0, float("inf")])
    assert error(overflowing, ["fp16"]).rows[0].saturated == pytest.approx(1 / 3)
    assert error(overflowing[:2], ["fp16 saturate"]).rows[0].saturated == pytest.approx(1 / 2)


def test_saturation_is_judged_at_both_ends_of_a_table() -> None:
    x = torch.tensor([7.4, 7.6, -8.4, -8.6, -7.9, 0.2])
    assert error(x, ["int4"]).rows[0].saturated == pytest.approx(2 / 6)
    assert error(x, ["int4"]).rows[0].flushed == pytest.approx(1 / 6)
    assert error(x, ["int4[row]"]).rows[0].saturated == 0.0
    # Below 8 the floor rule's scale is 1, for int4's largest power of two is 4.
    assert error(torch.tensor([7.4, 7.6, -7.9, 0.2]), ["int4[row:e8m0]"]).rows[0].saturated == pytest.approx(1 / 4)
    assert error(torch.tensor([1.2, 1.1, -1.2, 0.01]), ["nf4"]).rows[0].saturated == pytest.approx(2 / 4)


def test_a_ratio_keeps_elements_from_saturating() -> None:
    shares = [error(sample(), [cast]).rows[0].saturated for cast in ("mxfp4", "mxfp4 x3/4", "e4m3[1x32:fp32]")]
    assert shares[0] > 0.01
    assert shares[1:] == [0.0, 0.0]


def test_a_delayed_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="one tensor knows nothing"):
        error(sample(), ["e4m3[tensor] delayed"])


def test_limits() -> None:
    exact = error(torch.tensor([1.0, 2.0]), ["bf16"]).rows[0]
    assert (exact.mean_squared_error, exact.snr_db, exact.max_relative_error) == (0.0, math.inf, 0.0)
    empty = error(torch.zeros(0, 5), ["mxfp4"]).rows[0]
    assert (empty.mean_squared_error, empty.flushed, empty.saturated) == (0.0, 0.0, 0.0)
    assert math.isnan(error(torch.tensor([1.0, float("nan")]), ["mxfp4"]).rows[0].mean_squared_error)
    assert error(torch.zeros(4), ["mxfp4"]).rows[0].snr_db == math.inf


def test_the_table_is_aligned_text() -> None:
    lines = str(error(sample().requires_grad_(), ["mxfp8", "nvfp4 sr"])).splitlines()
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1
    assert lines[0].startswith("cast")
    assert lines[2].startswith("nvfp4 sr")


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 3_000_000])
def test_tree_sum_has_one_order(count: int) -> None:
    x = torch.randn(count, generator=torch.Generator().manual_seed(1))
    total = tree_sum(x)
    assert total.dtype == torch.float64
    assert total.shape == ()
    assert total.item() == pytest.approx(math.fsum(x.tolist()), rel=1e-12, abs=1e-12)
    values = x.double().tolist()
    while len(values) > 1 and count <= 1025:
        values = [_halved(values[i : i + 1024]) for i in range(0, len(values), 1024)]
    if 0 < count <= 1025:
        assert total.item() == values[0]


def _halved(chunk: list[float]) -> float:
    chunk = chunk + [0.0] * (1024 - len(chunk))
    while len(chunk) > 1:
        half = len(chunk) // 2
        chunk = [a + b for a, b in zip(chunk[:half], chunk[half:], strict=True)]
    return chunk[0]


def test_an_overflow_is_an_infinite_error() -> None:
    (row,) = error(torch.tensor([1.0, 7e4]), ["fp16"]).rows
    assert row.mean_squared_error == math.inf
    assert row.snr_db == -math.inf
