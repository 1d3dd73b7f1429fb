"""Every backend rounds as the scalar truth of `mixprec.formats` does, bit for bit."""

from functools import cache
from typing import get_args

import pytest
import torch
from torch import Tensor

from mixprec import formats
from mixprec.formats import Overflow, Rounding
from mixprec.kernels import Backend, CastParameters, Draw, ElementParameters, cast_parameters
from mixprec.kernels._parameters import element_parameters
from mixprec.kernels.reference._codes import decode, encode
from mixprec.kernels.reference._grid import round_to_grid
from mixprec.kernels.reference._philox import element_words
from mixprec.specs import Cast, Granularity

from .patterns import ELEMENTS, UNSIGNED, all_16_bit, edges, random_fp32, same

SEED, OFFSET = 0x1234_5678_9ABC, 7
ROUNDINGS = get_args(Rounding)
OVERFLOWS = get_args(Overflow)


def parameters_of(element: str, rounding: Rounding, overflow: Overflow) -> CastParameters:
    return cast_parameters(Cast(element=element, granularity=Granularity("none"), rounding=rounding, overflow=overflow))


def grid_of(element: str) -> ElementParameters:
    return element_parameters(formats.get_format(element), saturate=False, toward_zero=False)


def truth(x: Tensor, element: str, rounding: Rounding, overflow: Overflow, words: Tensor) -> Tensor:
    bits = words.tolist() if rounding == "stochastic" else [None] * x.numel()
    return torch.tensor(
        [
            formats.round(element, value, rounding=rounding, bits=word, overflow=overflow)
            for value, word in zip(x.float().tolist(), bits, strict=True)
        ],
        dtype=torch.float32,
    )


@cache
def inputs(source: str, element: str) -> Tensor:
    match source:
        case "bf16":
            return all_16_bit(torch.bfloat16)
        case "fp16":
            return all_16_bit(torch.float16)
        case "edges":
            return edges(element)
        case _:
            return random_fp32(100_000, seed=1)


@cache
def expected(source: str, element: str, rounding: Rounding, overflow: Overflow, step: int) -> tuple[Tensor, Tensor]:
    """A sample of positions and the truth there; cached, so that the backends share it."""
    x = inputs(source, element)
    positions = torch.arange(0, x.numel(), step)
    words = element_words(x.numel(), SEED, OFFSET, x.device)
    return positions, truth(x[positions], element, rounding, overflow, words[positions])


def check(backend: Backend, source: str, element: str, rounding: Rounding, overflow: Overflow, step: int) -> None:
    positions, right = expected(source, element, rounding, overflow, step)
    got = backend.round(inputs(source, element), parameters_of(element, rounding, overflow), Draw(SEED, OFFSET))
    assert same(got[positions], right)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_rounds_as_the_truth_on_edges_and_samples(
    backend: Backend, element: str, rounding: Rounding, overflow: Overflow
) -> None:
    check(backend, "edges", element, rounding, overflow, step=1)
    for source in ("bf16", "fp16", "fp32"):
        check(backend, source, element, rounding, overflow, step=61)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("source", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_rounds_as_the_truth_on_every_16_bit_pattern(
    backend: Backend, element: str, source: str, rounding: Rounding
) -> None:
    # Overflow differs in one comparison only, which the test above covers for both kinds.
    check(backend, source, element, rounding, "propagate", step=1)


@pytest.mark.parametrize("element", ELEMENTS)
def test_stochastic_threshold_is_exact(element: str) -> None:
    """Words just below, at and above the threshold; the truth is given the same words."""
    x = torch.cat((edges(element), random_fp32(500, seed=2)))
    grid = grid_of(element)
    fraction = torch.tensor([_fraction(element, v) for v in x.tolist()], dtype=torch.float64)
    threshold = (fraction * 2.0**32).long()
    for shift in (-1, 0, 1):
        words = (threshold + shift).clamp(0, 2**32 - 1)
        assert same(round_to_grid(x, grid, "stochastic", words), truth(x, element, "stochastic", "propagate", words))


def _fraction(element: str, value: float) -> float:
    """Position between the neighbours, from the truth's truncation and the spacing there."""
    fmt = formats.get_format(element)
    if not abs(value) <= fmt.max_value:
        return 0.5
    lower = abs(formats.round(fmt, value, rounding="toward-zero"))
    if fmt.grid:
        beyond = [abs(v) for v in fmt.grid if v * value >= 0 and abs(v) > lower]
        return (abs(value) - lower) / (min(beyond) - lower) if beyond and abs(value) > lower else 0.0
    exponent = fmt.min_exponent if lower < 2.0**fmt.min_exponent else formats.get_format("fp32").min_exponent
    while 2.0 ** (exponent + 1) <= lower:
        exponent += 1
    return (abs(value) - lower) * 2.0 ** (fmt.mantissa_bits - exponent)


@pytest.mark.parametrize("element", ELEMENTS + UNSIGNED)
def test_codes_are_those_of_the_truth(element: str) -> None:
    grid = grid_of(element)
    x = torch.cat((edges(element), random_fp32(2000, seed=3)))
    values = round_to_grid(x.abs() if element in UNSIGNED else x, grid, "nearest-even")
    if grid.nan_code < 0:
        assert set(encode(values[values.isnan()], grid).tolist()) == {formats.encode(element, 0.0)}
        values = values[~values.isnan()]
    codes = encode(values, grid)
    assert codes.tolist() == [formats.encode(element, v) for v in values.tolist()]
    assert same(decode(codes, grid), values)


@pytest.mark.parametrize("element", [e for e in ELEMENTS + UNSIGNED if formats.get_format(e).bits <= 16])
def test_every_code_decodes_as_the_truth(element: str) -> None:
    bits = formats.get_format(element).bits
    codes = torch.arange(2**bits)
    right = torch.tensor([formats.decode(element, code) for code in range(2**bits)], dtype=torch.float32)
    assert same(decode(codes, grid_of(element)), right)


@pytest.mark.parametrize("element", UNSIGNED)
def test_scales_are_rounded_as_the_truth(element: str) -> None:
    x = torch.cat((edges(element), random_fp32(2000, seed=3))).abs()
    grid = element_parameters(formats.get_format(element), saturate=True, toward_zero=False)
    right = truth(x, element, "nearest-even", "saturate", torch.zeros_like(x))
    assert same(round_to_grid(x, grid, "nearest-even"), right)


def test_random_words_are_those_of_the_truth() -> None:
    for seed, offset in ((0, 0), (SEED, OFFSET), (-1, -5), (2**63 - 1, 2**40)):
        words = element_words(300, seed, offset, torch.device("cpu"))
        assert words.tolist() == [formats.random_bits(seed % 2**64, offset % 2**64, i) for i in range(300)]
