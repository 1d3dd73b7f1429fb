"""Every cast that specs accept runs, and equals its plain-Python derivation, in all ways of combining its parts."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from mixprec.formats import FORMATS
from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import Cast, Delayed, Granularity, parse_cast

from .patterns import same
from .test_scaled import RANDOM, Derived, derive

DRAW = Draw(RANDOM.seed, RANDOM.offset, RANDOM.sign_offset)
ELEMENTS = [*(name for name, fmt in FORMATS.items() if fmt.kind != "exponent" and fmt.signed), "e5m6"]
SCALES = [None, *FORMATS, "e3m4"]
GRANULARITIES = [
    Granularity("none"),
    Granularity("tensor"),
    Granularity("row"),
    Granularity("block", 1, 4),
    Granularity("block", 2, 3),
]
RULES = ["exact", "floor", "ceil", "rceil", "even", "quest", "four-over-six"]
WORDS = [
    "",
    "sr",
    "rtz",
    "x3/4",
    "x3/4 sr",
    "propagate",
    "rht16",
    "sr rht16-fresh",
    "ht32 rtz",
    "delayed",
    "delayed(4,max,2) sr",
]


def combined(element: str) -> Iterator[Cast | str]:
    """Each cast of an element without words, or the refusal."""
    for tile, scale, second, rule in itertools.product(GRANULARITIES, SCALES, (None, "fp32"), RULES):
        try:
            yield Cast(element=element, granularity=tile, scale=scale, tensor_scale=second, rule=rule)
        except ValueError as refusal:
            yield str(refusal)


def accepted(element: str) -> Iterator[Cast]:
    return (cast for cast in combined(element) if isinstance(cast, Cast))


def with_words(cast: Cast) -> Iterator[Cast]:
    for words in WORDS:
        try:
            yield parse_cast(f"{cast} {words}")
        except ValueError:
            continue


@cache
def matrix() -> Tensor:
    """Binades apart, ties, zeros of both signs, an end of a format."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 7, generator=generator) * 2.0 ** torch.randint(-9, 9, (5, 7), generator=generator)
    x[0, :3] = torch.tensor([2.5, 0.0, -0.0])
    x[4] = 0.0
    return x


@cache
def derived(cast: str, axis: int) -> Derived:
    return derive(matrix(), cast, axis, RANDOM)


def check(backend: Backend, cast: Cast, axis: int) -> None:
    parameters, right = cast_parameters(cast), derived(str(cast), axis)
    if cast.delayed is None:
        carrier, outer = backend.scaled(matrix(), parameters, axis, DRAW)
    else:
        carrier, outer, _ = backend.delayed(matrix(), parameters, DRAW, torch.zeros(()))
    assert same(carrier, right.carrier), (str(cast), axis)
    assert same(outer, right.outer), (str(cast), axis)
    if cast.delayed is None:
        codes, scales, outer = backend.quantize(matrix(), parameters, axis, DRAW)
        assert codes.equal(right.codes), (str(cast), axis)
        assert scales.equal(right.scales), (str(cast), axis)
        assert same(outer, right.outer), (str(cast), axis)
        values = backend.dequantize(codes, scales, None, parameters, carrier.shape, axis)
        assert same(values, carrier), (str(cast), axis)


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_under_every_scale(backend: Backend, element: str, axis: int) -> None:
    for cast in accepted(element):
        check(backend, cast, axis)


@pytest.mark.parametrize("words", WORDS[1:])
@pytest.mark.parametrize("element", ["e4m3", "e2m1", "int8", "nf4"])
def test_words_change_every_cast_that_takes_them(backend: Backend, element: str, words: str) -> None:
    for cast in accepted(element):
        try:
            worded = parse_cast(f"{cast} {words}")
        except ValueError:
            continue
        check(backend, worded, axis=1)
        check(backend, worded, axis=0)


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_accepted_is_what_the_parts_say(element: str) -> None:
    """Counted by hand: the scales that each granularity takes, and the rules that each scale takes."""
    casts = list(accepted(element))
    # -8 to 7 need 3 bits; the numbers of NF4 are fp32 numbers of 24.
    bits = {"int4": 3, "nf4": 24, "e5m6": 7}.get(element) or FORMATS[element].mantissa_bits + 1
    by_granularity = {
        kind: [c for c in casts if c.granularity.kind == kind] for kind in ("none", "tensor", "row", "block")
    }
    assert len(by_granularity["none"]) == 1
    if element in ("fp32", "tf32", "bf16"):
        assert len(casts) == 1
        return
    assert len(by_granularity["tensor"]) == len(by_granularity["row"]) == 1 + 4
    floats = ["e5m2", "e4m3", "e4m3-ieee", "e4m3fnuz", "e5m2fnuz", "ue4m3", "ue5m3", "e3m4"]
    scale_bits = {"e5m2": 3, "e5m2fnuz": 3, "e3m4": 5}
    taken = [name for name in floats if bits + scale_bits.get(name, 4) <= 12]
    choices = 2 if element == "e2m1" else 1
    powers = 5 if element == "e2m1" else 4
    assert len(by_granularity["block"]) == 2 * (powers + choices + 2 * choices * len(taken))


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_refusal_gives_a_reason(element: str) -> None:
    refusals = [refusal for refusal in combined(element) if isinstance(refusal, str)]
    assert len(refusals) > 500
    for refusal in refusals:
        assert re.fullmatch(r"cast '[^']+' is refused: .{20,}", refusal), refusal


def test_casts_of_other_fields_are_distinct() -> None:
    """Printing tells every pair of accepted casts apart."""
    casts = [worded for element in ("e2m1", "int4") for cast in accepted(element) for worded in with_words(cast)]
    assert len({str(cast) for cast in casts}) == len(set(casts)) > 300
    for cast in casts:
        assert parse_cast(str(cast)) == cast
    one = parse_cast("e4m3[tensor] delayed")
    assert str(replace(one, delayed=Delayed(history=7, margin=2))) == "e4m3[tensor] delayed(7,max,2)"
