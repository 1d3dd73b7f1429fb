"""The reference's 8-bit codes of moments, against formats of torch, known numbers and what chance must give."""

import pytest
import torch
from torch import Tensor

from mixprec.kernels.reference._moment_codes import decode as values_of
from mixprec.kernels.reference._moment_codes import dynamic_numbers, encode, numbers_of, random_words

from . import moment_study as study


def normal(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def round_trip(x: Tensor, kind: str, expand: bool, signed: bool, block: int = 256) -> Tensor:
    codes, scales, powers = encode(x, block, kind, expand, signed)
    return values_of(codes, scales, powers, block, kind, signed)


def test_dynamic_map_is_the_known_one() -> None:
    signed, unsigned = dynamic_numbers(True), dynamic_numbers(False)
    assert len(signed) == len(unsigned) == 256
    assert signed[:3] == pytest.approx((-0.99296875, -0.97890625, -0.96484375))
    assert signed[124:131] == pytest.approx((-7.75e-6, -3.25e-6, -5.5e-7, 0.0, 5.5e-7, 3.25e-6, 7.75e-6))
    assert signed[-2:] == pytest.approx((0.99296875, 1.0))
    assert unsigned[:4] == pytest.approx((0.0, 3.25e-7, 7.75e-7, 2.125e-6))
    assert unsigned[-3:] == pytest.approx((0.989453125, 0.996484375, 1.0))
    assert list(signed) == sorted(signed)
    assert list(unsigned) == sorted(unsigned)


def below_one(n: int) -> Tensor:
    """Magnitudes of every size down to 2^-23, of which many lie next to 1; the first is 1, the scale."""
    generator = torch.Generator().manual_seed(5)
    each = torch.exp2(-23 * torch.rand(n, generator=generator)), 1 - 0.01 * torch.rand(n, generator=generator)
    return torch.cat([torch.ones(1), *each])


@pytest.mark.parametrize("signed", [True, False])
def test_dynamic_codes_read_as_their_numbers(signed: bool) -> None:
    for scale in (1.0, 3.7e-9, 3e38):
        codes = torch.arange(256, dtype=torch.uint8)
        got = values_of(codes, torch.tensor([scale]), None, 256, "dynamic", signed).double()
        right = torch.tensor(dynamic_numbers(signed), dtype=torch.float64) * torch.tensor(scale).double()
        assert torch.allclose(got, right, rtol=2.0**-22, atol=0)
        assert got[-1] == torch.tensor(scale)


def test_dynamic_codes_with_a_sign_are_the_nearest() -> None:
    x = below_one(200_000)
    numbers = torch.tensor(dynamic_numbers(True), dtype=torch.float64)
    usual = x > 2.81e-7  # just below it the smallest number is nearer than the 0 that serves
    for sign in (1, -1):
        exact = (x * sign).double()
        codes = encode(x * sign, len(x), "dynamic", True, True)[0].long()
        around = torch.stack([(exact - numbers[(codes + k).clamp(0, 255)]).abs() for k in (-1, 0, 1)])
        assert (around[1] <= around.min(0).values + 2e-7 * exact.abs())[usual].all()
        assert (codes[x < 2.79e-7] == 127).all()


def test_dynamic_codes_without_a_sign_follow_their_chance() -> None:
    """The larger of two numbers exactly where the random word says so, but for words on the border."""
    x = below_one(200_000)
    codes = encode(x, len(x), "dynamic", True, False)[0].long()
    numbers = torch.tensor(dynamic_numbers(False), dtype=torch.float64)
    below = (torch.bucketize(x.double(), numbers, right=True) - 1).clamp(max=254)
    part = (x.double() - numbers[below]) / (numbers[below + 1] - numbers[below])
    chance = random_words(x.view(torch.int32), torch.arange(len(x))).double() / 2**32
    sure = ((chance - (1 - part)).abs() > 2.0**-14) & (below > 0)
    assert sure.double().mean() > 0.95
    assert torch.equal(codes[sure], (below + (chance >= 1 - part))[sure])


def test_no_value_of_a_huge_block_passes_its_scale() -> None:
    """One over such a scale is subnormal; rounded up it would bring the largest beyond the last code."""
    for top in torch.linspace(2.0**126, 3.4e38, 500):
        for kind in ("e4m3", "dynamic"):
            x = torch.stack([top, top / 2])
            assert (round_trip(x, kind, True, False)[0] / top).item() == pytest.approx(1.0, abs=0.04)
            assert (round_trip(x, kind, True, True)[0] / top).item() == pytest.approx(1.0, abs=0.04)


def test_a_fixed_power_is_torchs_e4m3() -> None:
    """Independent of the codes' own arithmetic: torch's cast to float8 of the block brought to 448."""
    x = normal(256) * 0.01
    codes, scales, powers = encode(x, 256, "e4m3", False, True)
    right = (x / x.abs().max() * 448).to(torch.float8_e4m3fn)
    assert torch.equal(codes.view(torch.float8_e4m3fn).float(), right.float())
    assert scales.item() == x.abs().max().item()
    assert powers.tolist() == [1]
    assert torch.allclose(values_of(codes, scales, powers, 256, "e4m3", True), right.float() / 448 * scales, rtol=1e-6)


@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_numbers_are_roots_of_the_formats(power: int) -> None:
    signed = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).double() / 448
    field, mantissa = torch.arange(256) // 16, torch.arange(256) % 16
    unsigned = torch.where(field == 0, mantissa * 2.0**-10, (16 + mantissa) * 2.0 ** (field - 11.0)).double() / 496
    exponent = (2.0, 1.0, 0.5, 0.25)[power]
    for right, is_signed in ((signed, True), (unsigned, False)):
        got = torch.tensor(numbers_of("e4m3", is_signed)[power], dtype=torch.float64)
        assert torch.allclose(got[: len(right)], right**exponent, rtol=1e-7)
        assert not is_signed or torch.equal(got[128:255], -got[:127])


@pytest.mark.parametrize(
    ("least", "signed", "power"),
    [
        *((-5, True, 3), (-6, True, 2), (-11, True, 2), (-12, True, 1), (-22, True, 1), (-23, True, 0)),
        *((-4, False, 3), (-5, False, 2), (-8, False, 2), (-9, False, 1), (-16, False, 1), (-17, False, 0)),
    ],
)
def test_powers_fit_a_blocks_range(least: int, signed: bool, power: int) -> None:
    x = torch.tensor([1.75, 0.0, 2.0**least, 0.5])
    assert encode(x, 128, "e4m3", True, signed)[2].tolist() == [power]


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("kind", ["e4m3", "dynamic"])
def test_second_moments_never_vanish(kind: str, expand: bool) -> None:
    for exponents in (30.0, 60.0, 140.0):
        x = torch.exp2(-torch.linspace(0, exponents, 256))
        got = round_trip(torch.cat([x, x * 0, torch.full((100,), 1e-45)]), kind, expand, False)
        assert (got[:256] > 0).all()
        assert (got[256:512] == 0).all()
        assert (got[512:] > 0).all()
        assert (got[:256] >= x / 4).all()  # an update is at most twice too large


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("kind", ["e4m3", "dynamic"])
def test_the_largest_comes_back(kind: str, signed: bool) -> None:
    x = normal(256 * 40).abs() * (-1 if signed and kind == "e4m3" else 1)
    got, top = round_trip(x, kind, True, signed).view(40, 256), x.view(40, 256)
    at = top.abs().argmax(1, keepdim=True)
    back = (got.gather(1, at) == top.gather(1, at)).sum()
    assert back == 40 if signed else back >= 39  # by chance the next one, once in 2^16


@pytest.mark.parametrize("kind", ["e4m3", "dynamic"])
def test_zeros_and_tiny_blocks_are_harmless(kind: str) -> None:
    for signed in (True, False):
        assert (round_trip(torch.zeros(300), kind, True, signed) == 0).all()
        tiny = torch.full((300,), 2.0**-140)
        got = round_trip(tiny, kind, True, signed)
        assert got.isfinite().all()
        assert (got <= 2.0**-100).all()


def test_chance_has_no_bias() -> None:
    """Means over many blocks of the same numbers under slightly different scales."""
    n = 4000
    x = torch.exp(normal(256) * 1.5).square().expand(n, 256) * torch.linspace(1.0, 1.5, n).view(n, 1)
    for kind in ("e4m3", "dynamic"):
        got = round_trip(x.flatten(), kind, False, False).view(n, 256)
        bare = encode(x.flatten(), 256, kind, False, False)[0].view(n, 256)
        root = kind == "e4m3"  # whose codes are by chance on the root
        error = (got.sqrt() / x.sqrt() if root else got / x).double().mean(0) - 1
        spread = (got.sqrt() / x.sqrt() if root else got / x).double().std(0)
        usual = (bare > 8).all(0)  # not those that the smallest code serves
        assert usual.sum() > 100
        assert (error.abs() < 5 * spread / n**0.5 + 1e-6)[usual].all()


@pytest.mark.parametrize("kind", ["e4m3", "dynamic"])
def test_a_second_moment_follows_its_gradients(kind: str) -> None:
    """A decay of 0.999 after gradients doubled and others stayed: to nearest, neither half would be right."""
    doubled, stayed = study.drift(kind, beta=0.999, steps=1500, by_chance=True, blocks=4)
    assert doubled == pytest.approx(1.0, abs=0.04)
    assert stayed == pytest.approx(1.0, abs=0.04)
    doubled, stayed = study.drift(kind, beta=0.999, steps=1500, by_chance=False, blocks=4)
    assert doubled < 0.9
    assert stayed > 1.3


def test_a_second_moment_in_bf16_follows_its_gradients() -> None:
    doubled, stayed = study.drift("bf16", beta=0.999, steps=2500, by_chance=True, blocks=4)
    assert doubled == pytest.approx(1.0, abs=0.01)
    assert stayed == pytest.approx(1.0, abs=0.01)
    doubled, stayed = study.drift("bf16", beta=0.999, steps=2500, by_chance=False, blocks=4)
    assert doubled > 1.08
    assert stayed > 1.15


def test_errors_on_the_moments_of_a_gpt() -> None:
    moments = study.trained_moments(steps=40)
    for block in (128, 256):
        plain, fixed = study.errors(moments, "plain e4m3", block), study.errors(moments, "e4m3 fixed", block)
        expanded, dynamic = study.errors(moments, "e4m3", block), study.errors(moments, "dynamic", block)
        assert expanded.first < 0.9 * fixed.first
        assert expanded.second < 0.7 * fixed.second
        assert expanded.update < 0.9 * fixed.update
        assert fixed.update < 0.1 * plain.update  # whose second moments vanish
        assert expanded.second < dynamic.second
        assert expanded.update < 0.025
    assert study.errors(moments, "e4m3", 128).first < study.errors(moments, "e4m3", 256).first
