"""Eight-bit codes of an optimizer's moments: blocks of consecutive elements, each under a scale of its own.

A code stands for a number of magnitude at most 1; an element is its number times its block's fp32 scale. Arithmetic is
fp32, each operation rounded once; magnitudes are taken by bits. For one block of values x (the last block of a tensor
may be short):

1. ``amax`` is the largest magnitude. If it is infinite or NaN, every x counts as 0 and the scale is NaN (0x7fc00000),
   so that the whole block is read as NaN.
2. ``scale = max(amax, 2^-100)``. The floor keeps every number times a scale above 0; blocks below it lose range.
3. The code is x's product with a factor of the scale, rounded, by kind. Without a sign (``is_signed`` false; a second
   moment) x counts as ``|x|``, and its rounding is by chance, see below. With a sign it is to nearest.

``e4m3``: the block's power p is one of 1/2, 1, 2, 4 (stored as 0, 1, 2, 3). ``range`` is the exponent field of
``scale`` less that of the smallest nonzero magnitude (0 if there is none; a subnormal's field is 0). With ``expand`` p
is the largest one for which ``p * range <= limit``, else 1/2; the limit is 22 with a sign, 16 without.
Without ``expand`` p is 1 with a sign, 1/2 without: of a second moment the root is kept, which is what an update divides
by, and whose range is half as wide. Then ``s``, twice what is rounded, is, with roots through fp64::

    sqrt(|x|) * (k / sqrt(scale)) | |x| * (k / scale) | u * u, u = |x| * (k / scale) | (u * u) * (u * u)

The constant k brings ``scale`` to twice the largest number ``top``: ``2 top``, ``2 top``, its root, the root of that,
in fp64, rounded to fp32; without a sign times ``1 - 2^-21`` before it is rounded, so that no s lies above ``2 top``.

With a sign s/2 is rounded to E4M3 (4 exponent bits of bias 7, 3 mantissa bits, ``top`` 448; 0x7f, its NaN, is not
used), ties away from zero, the largest magnitude of a block comes back exactly, and bit 7 of the code is x's sign (of
zero too). Without one it is rounded to E4M4 (the sign's bit is a fourth mantissa bit, all 256 codes are numbers,
``top`` 496). In both, ``t = max(s, 0.5 * s + 2^-6)`` is s from the smallest normal number on, and keeps below it the
spacing that is there: its bits less those of 2^-6 are the code and, below it, 20 (E4M4: 19) bits that are rounded; to
nearest by adding 2^19. The number of a code of magnitude z is ``z / top``, its square (p = 1/2), its root (p = 2) or
the root of its root (p = 4), computed in fp64, each operation rounded once, and rounded to fp32.

``dynamic``: the code is the place in the ascending list of `dynamic_numbers`. These are straight lines, one for each
decade, and both directions are computed from that. Decade i, of 7, has n parts, ``n = 2^i`` with a sign, else
``2^(i+1)``. Among the numbers that are not negative its first one has place n, or n - 1 without a sign, counted from 0.

A code's element: ``f`` is its place among these plus 1/2, or plus 3/2 without a sign. So ``f = 2^k * m`` with m in
[1, 2), and the decade i is k with a sign, else k - 1. The element is ``(9 m - 8) * (base * scale)``, where the first
factor is exact and ``base = 10^(i-7)`` in fp32, 0 for the place 0, 1 for the last one; and at most ``scale``.

``u = |x| * q`` with ``q = 1 / scale``, or the fp32 number below it if ``scale * q`` would be above 1 (which happens
where q is subnormal). Its place, as a fraction: between two neighbouring numbers it rises evenly from the place of the
lower one to that of the other. ``u`` is at least 2^-24 here (without a sign, the first number that is not 0). Decade i
comes from its exponent e: ``floor((e + 24) / 3)``, 6 at most. With ``inverse``, 1 over the distance of two of its
numbers, and ``offset``, its first number over that distance, ``(2 n + 9) / 18``, from fp64 rounded to fp32::

    w = u * inverse - offset
    place = (place of the first) + max(min(w, w * (5/3), 5 * w + 2), 2 * w - last)

The three in the minimum are the lines of the decade, of the gap before it (0.6 distances wide) and of the decade before
it, whose distances are a fifth. The last number, 1, lies half a distance above the one before, whose w is ``last``: 63
with a sign, 127 without. ``w``, ``5 * w + 2`` and ``2 * w - last`` are rounded once; 5/3 is in fp32.

With a sign u goes to number ``floor(place + 1/2)``, which is the nearest one (the 1/2 is added to the place of
the first; below the smallest number the threshold is 2.8e-7, not 2.75e-7). A negative x takes the number
``-number_j``; the map has no -1, and the last before it serves. -0 counts as 0.

4. Without a sign, a nonzero x never takes the code of 0 but the smallest other one (code 1): a second moment that
   vanished under a first one that did not would divide it by eps alone.

**By chance.** A second moment changes by a thousandth in a step, a code by a thirtieth: to nearest it would stay where
it is for good, and move with its block's scale instead. So u between two numbers goes to the larger with the
probability of where it lies between them. The random bits are the low bits of x itself, mixed with its place j in the
block: ``word = (bits(|x|) + j * 0x9e3779b9) * 0x85ebca6b mod 2^32``. No state is kept, and equal inputs give equal
codes. E4M4: ``word >> 13`` is added to the bits of t less those of 2^-6, and the lower 19 are dropped. Dynamic map: the
code is ``(floor(2^16 * place) + (word >> 16)) >> 16``; 0 for 0.

Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861 (blocks, the dynamic map); Xi et
al., COAT, arXiv:2410.19313 (powers that fit a block's range to E4M3's).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import torch
from torch import Tensor

CodeKind = Literal["e4m3", "dynamic"]

_LEAST_SCALE = 2.0**-100
_MIN_EXPONENT = -6
_DECADES = 7
_LEAST_EXPONENT = -24  # of the dynamic map's binades
_SIGNED_ZERO = 127  # the code of 0 in the signed dynamic map
_CROSSING = 1.6666666269302368  # 5 / 3 in fp32
_WORD = 0xFFFFFFFF
_ROOT, _PLAIN = 0, 1  # stored powers


def encode(
    values: Tensor, block: int, kind: CodeKind, expand: bool, is_signed: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, scales and powers of a moment.

    Args:
        values: fp32 ``[n]``.
        block: consecutive elements that share a scale.
        kind: which numbers codes stand for.
        expand: ``e4m3``: whether blocks choose their powers.
        is_signed: whether there are negative numbers.

    Returns:
        uint8 ``[n]``, fp32 ``[ceil(n / block)]``, and uint8 ``[ceil(n / block)]`` (``dynamic``: ``None``).

    Example:
        >>> codes, scales, powers = encode(torch.tensor([1.0, -2.0, 0.0]), 256, "e4m3", True, True)
        >>> codes.tolist(), scales.tolist(), powers.tolist()
        ([94, 254, 0], [2.0], [3])
        >>> decode(codes, scales, powers, 256, "e4m3", True).tolist()
        [1.0, -2.0, 0.0]
    """
    x = _blocks(values, block)
    magnitude = x.view(torch.int32) & 0x7FFFFFFF
    finite = (magnitude < 0x7F800000).all(1, keepdim=True)
    x, magnitude = torch.where(finite, x, 0.0), torch.where(finite, magnitude, 0)
    scale = magnitude.amax(1, keepdim=True).view(torch.float32).clamp(min=_LEAST_SCALE)
    powers = _powers(magnitude, scale, expand, is_signed) if kind == "e4m3" else None
    if powers is None:
        fractions = magnitude.view(torch.float32) * _inverse(scale)
    else:
        fractions = _lifted_bits(magnitude.view(torch.float32), scale, powers, is_signed)
    if is_signed:
        codes = _dynamic_codes(fractions, x < 0) if powers is None else _float_codes(fractions, x)
    else:
        words = random_words(magnitude, torch.arange(block, device=x.device))
        codes = (_unsigned_dynamic_codes if powers is None else _unsigned_float_codes)(fractions, words)
        codes = torch.where(magnitude > 0, codes.clamp(min=1), 0)
    scales = torch.where(finite, scale, math.nan).flatten()
    kept = None if powers is None else powers.flatten().to(torch.uint8)
    return codes.flatten()[: values.numel()].to(torch.uint8), scales, kept


def decode(codes: Tensor, scales: Tensor, powers: Tensor | None, block: int, kind: CodeKind, is_signed: bool) -> Tensor:
    """The moment of `encode`'s results, fp32 ``[n]``.

    Args:
        codes: uint8 ``[n]``.
        scales: fp32 ``[ceil(n / block)]``.
        powers: uint8 ``[ceil(n / block)]``, or ``None``.
        block: as of `encode`.
        kind: as of `encode`.
        is_signed: as of `encode`.
    """
    each = torch.arange(codes.numel(), device=codes.device) // block
    if powers is None:
        return _dynamic_values(codes, scales[each], is_signed)
    numbers = torch.tensor(numbers_of(kind, is_signed), dtype=torch.float32, device=codes.device)
    return numbers[powers.long()[each], codes.long()] * scales[each]


def random_words(magnitude: Tensor, place: Tensor) -> Tensor:
    """32 random bits of each element, in int64.

    Args:
        magnitude: the bits of |x|, int32.
        place: of each element in its block.

    Example:
        >>> hex(random_words(torch.tensor([1], dtype=torch.int32), torch.tensor([0])).item())
        '0x85ebca6b'
    """
    return (((magnitude + place * 0x9E3779B9) & _WORD) * 0x85EBCA6B) & _WORD


@cache
def numbers_of(kind: CodeKind, is_signed: bool) -> tuple[tuple[float, ...], ...]:
    """The numbers of codes 0 to 255, for each stored power (one list for ``dynamic``)."""
    if kind == "dynamic":
        return (dynamic_numbers(is_signed),)
    return tuple(tuple(_float_number(code, power, is_signed) for code in range(256)) for power in range(4))


@cache
def dynamic_numbers(is_signed: bool) -> tuple[float, ...]:
    """The dynamic map: 256 numbers in ascending order.

    0 and 1; and for each decade from 10^-7 to 1 the middles of its equal parts (1, 2, 4, ... 64 with a sign, twice as
    many without), with a sign also times -1.

    Example:
        >>> dynamic_numbers(False)[:3], dynamic_numbers(True)[0]
        ((0.0, 3.25e-07, 7.75e-07), -0.99296875)
    """
    middles = [
        # whole numbers but for one quotient: rounded once
        (2 * n + 9 * (2 * j + 1)) / (20 * n * 10 ** (_DECADES - 1 - i))
        for i, n in enumerate(_parts(is_signed))
        for j in range(n)
    ]
    return tuple(sorted([0.0, 1.0, *middles, *((-m for m in middles) if is_signed else ())]))


def _parts(is_signed: bool) -> list[int]:
    """Of each decade of the dynamic map."""
    return [2 ** (i if is_signed else i + 1) for i in range(_DECADES)]


def _float_number(code: int, power: int, is_signed: bool) -> float:
    mantissa_bits = _mantissa_bits(is_signed)
    body = code & 0x7F if is_signed else code
    field, mantissa = body >> mantissa_bits, body & ((1 << mantissa_bits) - 1)
    whole = mantissa if field == 0 else mantissa + (1 << mantissa_bits)
    z = math.ldexp(whole, max(field, 1) - 1 + _MIN_EXPONENT - mantissa_bits) / _top(is_signed)
    number = (z * z, z, math.sqrt(z), math.sqrt(math.sqrt(z)))[power]
    return -number if is_signed and code >= 0x80 else number


def _mantissa_bits(is_signed: bool) -> int:
    return 3 if is_signed else 4


def _top(is_signed: bool) -> float:
    return 448.0 if is_signed else 496.0


def _fixed_power(is_signed: bool) -> int:
    return _PLAIN if is_signed else _ROOT


def _blocks(values: Tensor, block: int) -> Tensor:
    """``[blocks, block]``, with zeros after the last element."""
    return torch.nn.functional.pad(values, (0, -values.numel() % block)).view(-1, block)


def _inverse(scale: Tensor) -> Tensor:
    """1 / scale, or the number below it if scale times it were above 1."""
    inverse = torch.ones_like(scale) / scale
    return torch.where(scale * inverse > 1, (inverse.view(torch.int32) - 1).view(torch.float32), inverse)


def _powers(magnitude: Tensor, scale: Tensor, expand: bool, is_signed: bool) -> Tensor:
    """The stored power of each block, int32 ``[blocks, 1]``."""
    if not expand:
        return torch.full_like(scale, _fixed_power(is_signed), dtype=torch.int32)
    least = torch.where(magnitude > 0, magnitude, 0x7FFFFFFF).amin(1, keepdim=True)
    least = torch.where(least == 0x7FFFFFFF, 0, least)
    spread = (scale.view(torch.int32) >> 23) - (least >> 23)
    limit = 22 if is_signed else 16
    return (spread <= limit).int() + (2 * spread <= limit).int() + (4 * spread <= limit).int()


def _lifted_bits(magnitude: Tensor, scale: Tensor, powers: Tensor, is_signed: bool) -> Tensor:
    """Bits of t less those of 2^-6, int32; |x| is given."""
    k = torch.tensor(_largest(is_signed), dtype=torch.float32, device=scale.device)[powers.long()]
    rooted = powers == _ROOT
    u = torch.where(rooted, _root(magnitude), magnitude) * (k / torch.where(rooted, _root(scale), scale))
    square = u * u
    s = torch.where(powers <= _PLAIN, u, torch.where(powers == 2, square, square * square))
    smallest = 2.0**_MIN_EXPONENT
    return torch.maximum(s, s * 0.5 + smallest).view(torch.int32) - ((_MIN_EXPONENT + 127) << 23)


def _root(x: Tensor) -> Tensor:
    return x.double().sqrt().float()


def _largest(is_signed: bool) -> tuple[float, ...]:
    """What brings a scale to twice the largest number, for each stored power."""
    twice = 2 * _top(is_signed)
    factor = 1.0 if is_signed else 1.0 - 2.0**-21
    return tuple(k * factor for k in (twice, twice, math.sqrt(twice), math.sqrt(math.sqrt(twice))))


def _float_codes(lifted: Tensor, x: Tensor) -> Tensor:
    """E4M3, int32."""
    return ((lifted + (1 << 19)) >> 20) | ((x.view(torch.int32) >> 24) & 0x80)


def _unsigned_float_codes(lifted: Tensor, words: Tensor) -> Tensor:
    """E4M4, int32."""
    return (lifted + (words >> 13).int()) >> 19


def _dynamic_codes(u: Tensor, negative: Tensor) -> Tensor:
    """Codes of the signed dynamic map, int32."""
    place = _dynamic_places(u, True).int()
    return torch.where(negative, _SIGNED_ZERO - place.clamp(max=_SIGNED_ZERO), _SIGNED_ZERO + place)


def _unsigned_dynamic_codes(u: Tensor, words: Tensor) -> Tensor:
    """Codes of the dynamic map without a sign, int32."""
    place = (_dynamic_places(u, False) * 2.0**16).int()
    return (place + (words >> 16).int()) >> 16


def _dynamic_places(u: Tensor, is_signed: bool) -> Tensor:
    """Where u lies among the numbers that are not negative, fp32: its place, with a sign 1/2 more."""
    u = u.clamp(min=2.0**_LEAST_EXPONENT if is_signed else dynamic_numbers(False)[1])
    exponent = ((u.view(torch.int32) >> 23) - 127).long()
    region = torch.div(exponent - _LEAST_EXPONENT, 3, rounding_mode="floor").clamp(max=_DECADES - 1)
    offset, inverse, place = (torch.tensor(x, dtype=torch.float32, device=u.device)[region] for x in _lines(is_signed))
    w = (u.double() * inverse.double() - offset.double()).float()  # exact before it is rounded
    below = (w.double() * 5.0 + 2.0).float()
    top = (w.double() * 2.0 - (63.0 if is_signed else 127.0)).float()
    return place + torch.maximum(torch.minimum(torch.minimum(w, w * _CROSSING), below), top)


@cache
def _lines(is_signed: bool) -> tuple[tuple[float, ...], ...]:
    """``offset``, ``inverse`` and ``place`` of each decade."""
    parts = _parts(is_signed)
    offset = tuple((2 * n + 9) / 18 for n in parts)
    inverse = tuple(n * 10 ** (_DECADES - i) / 9 for i, n in enumerate(parts))
    return offset, inverse, tuple(n + (0.5 if is_signed else -1.0) for n in parts)


def _dynamic_values(codes: Tensor, scales: Tensor, is_signed: bool) -> Tensor:
    """Elements of the codes under the scale of each, fp32."""
    place = codes.float() - (_SIGNED_ZERO if is_signed else 0.0)
    mantissa, exponent = torch.frexp(place.abs() + (0.5 if is_signed else 1.5))
    decade = exponent.long() - (1 if is_signed else 2)  # -1: of 0; 7: of 1
    bases = [0.0, *(10.0 ** (i - _DECADES) for i in range(_DECADES)), 1.0]
    base = torch.tensor(bases, dtype=torch.float32, device=codes.device)[decade + 1]
    value = torch.minimum((18.0 * mantissa - 8.0) * (base * scales), scales)
    return torch.where(place < 0, -value, value)
