from __future__ import annotations

import math

import pytest
import torch

from mixprec.report.numbers import Band, bands


def named(found: list[Band], name: str) -> Band:
    (band,) = [band for band in found if band.name == name]
    return band


def test_a_gradient_under_a_loss_scale_shows_what_the_scale_saves():
    """Recorded as it was, multiplied by 2^10: without the scale, fp16's band lies ten binades higher."""
    found = bands({-26: 10, -25: 20, -20: 30, -12: 40}, "grad_output", 1024.0)
    under, without = found[:2]
    assert under == Band(
        name="fp16, loss scale 2^10", low=-24, normal=-14, high=16, flushed=0.1, subnormal=0.5, above=0.0
    )
    assert (without.name, without.low, without.normal, without.high) == ("fp16, no loss scale", -14, -4, 26)
    assert (without.flushed, without.subnormal) == (0.6, 0.4)


def test_an_unscaled_gradient_moves_the_band_the_other_way():
    found = bands({-30: 1, -20: 3}, "gradient", 65536.0)
    assert (found[0].low, found[0].high, found[0].flushed) == (-40, 0, 0.0)
    assert (found[1].low, found[1].flushed) == (-24, 0.25)


def test_without_a_loss_scale_one_that_fits_is_shown():
    found = bands({-40: 1, -10: 1}, "grad_output", None)
    assert found[0].name == "fp16, loss scale 2^24 would fit"
    assert found[0].high - 1 - 1 == -10, "a factor of two above the largest"
    assert found[1].name == "fp16, no loss scale"
    assert [band.name for band in bands({14: 1}, "gradient", None)][:2] == ["fp16, no loss scale", "bf16"]


def test_a_scale_that_is_no_power_of_two_lies_between_binades():
    (band, *_) = bands({-20: 1}, "gradient", 1000.0)
    assert band.name == "fp16, loss scale 1000"
    assert band.low == pytest.approx(-24 - math.log2(1000))


def test_activations_know_no_loss_scale():
    names = [band.name for band in bands({0: 1}, "input", 1024.0)]
    assert names[:2] == ["fp16", "bf16"]
    assert not [name for name in names if "loss scale" in name]


def test_scaled_formats_end_where_the_tensor_does():
    found = bands({-30: 1, -9: 1, -1: 2, 3: 4}, "weight", None)
    assert {band.high for band in found if band.name.endswith("scaled to the largest")} == {4}
    e4m3 = named(found, "e4m3, scaled to the largest")
    assert (e4m3.low, e4m3.normal) == (3 - 8 - 9, 3 - 8 - 6)
    assert (e4m3.flushed, e4m3.subnormal, e4m3.above) == (1 / 8, 0.0, 0.0)
    assert named(found, "e4m3, no scale").low == -9


def test_what_lies_above_is_told():
    found = bands({9: 1, 16: 1, 0: 2}, "input", None)
    assert named(found, "fp16").above == 0.25
    assert named(found, "e4m3, no scale").above == 0.5
    assert named(found, "bf16").above == 0.0


@pytest.mark.parametrize(("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_the_shares_are_those_that_torch_rounds_to(name: str, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(0)
    exponents = torch.randint(-140 if name == "bf16" else -34, 16, (20_000,), generator=generator)
    x = torch.ldexp(torch.rand(20_000, generator=generator, dtype=torch.float64) * 0.999 + 1.0005, exponents).float()
    counts = dict(zip(*(part.tolist() for part in exponents.unique(return_counts=True)), strict=True))
    band = named(bands(counts, "input", None), name)
    rounded = x.to(dtype)
    smallest = torch.finfo(dtype).smallest_normal
    assert band.flushed == (rounded == 0).double().mean().item()
    # One that rounds up to the smallest normal number counts by its own binade.
    is_small = (rounded != 0) & (x.abs() < smallest)
    assert band.subnormal == pytest.approx(is_small.double().mean().item())


def test_a_tensor_of_zeros_has_no_band():
    assert bands({}, "input", None) == []
