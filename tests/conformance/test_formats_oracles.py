"""The scalar truth against torch, ml_dtypes and gfloat: every bf16 and fp16 pattern, fp32 edges, random fp32.

Where an oracle differs on purpose, the test says so and pins the difference; docs/formats.md has the table.
"""

from __future__ import annotations

import math
from functools import lru_cache

import gfloat
import gfloat.formats as oracle_formats
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch

from mixprec.formats import Format, decode, encode, float_format, get_format, round

Array = npt.NDArray[np.float64]

NAMES = (
    "fp32",
    "bf16",
    "fp16",
    "e5m2",
    "e4m3",
    "e4m3-ieee",
    "e4m3fnuz",
    "e5m2fnuz",
    "e3m2",
    "e2m3",
    "e2m1",
    "int8",
    "ue4m3",
    "ue5m3",
    "e8m0",
    "e3m4",
)
FORMATS = {name: get_format(name) for name in NAMES} | {
    "e4m3b11fnuz": float_format(4, 3, bias=11, nan="negative-zero"),
}
TORCH = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
}
ML_DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e3m4": ml_dtypes.float8_e3m4,
    "e4m3-ieee": ml_dtypes.float8_e4m3,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
}


def gfloat_format(fmt: Format) -> gfloat.FormatInfo:
    """A float format as gfloat describes one, from its facts."""
    return gfloat.FormatInfo(
        fmt.name,
        fmt.bits,
        fmt.mantissa_bits + 1,
        bias=fmt.bias,
        is_signed=fmt.signed,
        domain=gfloat.Domain.Extended if fmt.has_infinity else gfloat.Domain.Finite,
        has_nz=fmt.has_negative_zero,
        num_high_nans={"ieee": (1 << fmt.mantissa_bits) - 1, "all-ones": 1}.get(fmt.nan, 0),
        has_subnormals=fmt.has_subnormals,
        is_twos_complement=False,
    )


GFLOAT = {
    "fp32": oracle_formats.format_info_binary32,
    "bf16": oracle_formats.format_info_bfloat16,
    "fp16": oracle_formats.format_info_binary16,
    "e5m2": oracle_formats.format_info_ocp_e5m2,
    "e4m3": oracle_formats.format_info_ocp_e4m3,
    "e3m2": oracle_formats.format_info_ocp_e3m2,
    "e2m3": oracle_formats.format_info_ocp_e2m3,
    "e2m1": oracle_formats.format_info_ocp_e2m1,
    "int8": oracle_formats.format_info_ocp_int8,
    "e8m0": oracle_formats.format_info_ocp_e8m0,
} | {
    name: gfloat_format(FORMATS[name])
    for name in ("e4m3-ieee", "e4m3fnuz", "e5m2fnuz", "ue4m3", "ue5m3", "e4m3b11fnuz")
}


@pytest.fixture(autouse=True)
def quiet_casts():
    """The oracles' own casts warn on overflow and NaN, which is what they are asked for here."""
    with np.errstate(all="ignore"):
        yield


def patterns() -> npt.NDArray[np.float32]:
    """Every bf16 value, every fp16 value and random fp32 bits."""
    bf16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    fp16 = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    random = np.random.default_rng(0).integers(0, 2**32, 8192, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        return np.concatenate([bf16, fp16, random])


def edges(fmt: Format) -> npt.NDArray[np.float32]:
    """Grid values, the midpoints between them and the fp32 values next to both."""
    step = max(1, fmt.max_code // 512)
    codes = range(0, fmt.max_code, step)
    exact = [decode(fmt, code) for code in codes] + [fmt.max_value]
    midpoints = [(decode(fmt, code) + decode(fmt, code + 1)) / 2 for code in codes]
    beyond = [fmt.max_value * factor for factor in (1 + 2.0**-12, 1 + 2.0**-9, 1.0625, 1.125, 1.25, 1.5, 2)]
    with np.errstate(all="ignore"):
        x = np.array([*exact, *midpoints, *beyond], dtype=np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))])
    return np.concatenate([x, -x])


@lru_cache
def inputs(name: str) -> npt.NDArray[np.float32]:
    return np.concatenate([patterns(), edges(FORMATS[name])])


@lru_cache
def rounded(name: str) -> Array:
    """The scalar truth, overflow propagated."""
    fmt = FORMATS[name]
    return np.array([round(fmt, x, overflow="propagate") for x in inputs(name).tolist()])


def saturated(name: str) -> Array:
    """The scalar truth, saturating; only what is large can differ from ``rounded``."""
    fmt, values = FORMATS[name], rounded(name).copy()
    x = inputs(name)
    large = np.flatnonzero(np.abs(x) >= fmt.max_value)
    values[large] = [round(fmt, value) for value in x[large].tolist()]
    return values


def assert_same(got: Array, expected: Array, x: npt.NDArray[np.floating]) -> None:
    """Equal with the sign of zero; NaN is NaN."""
    both_nan = np.isnan(got) & np.isnan(expected)
    same = both_nan | ((got == expected) & (np.signbit(got) == np.signbit(expected)))
    wrong = np.flatnonzero(~same)
    assert wrong.size == 0, [(float(x[i]), float(got[i]), float(expected[i])) for i in wrong[:8]]


def through_torch(x: npt.NDArray[np.float32], dtype: torch.dtype) -> Array:
    return torch.from_numpy(x).to(dtype).to(torch.float64).numpy()


def through_ml_dtypes(x: npt.NDArray[np.float32], dtype: npt.DTypeLike) -> Array:
    return x.astype(dtype).astype(np.float64)


@pytest.mark.parametrize("name", ML_DTYPES)
def test_codes_decode_as_in_ml_dtypes(name: str):
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.bits, dtype=np.uint16 if fmt.bits == 16 else np.uint8)
    expected = codes.view(ML_DTYPES[name]).astype(np.float64)
    assert_same(np.array([decode(fmt, code) for code in codes.tolist()]), expected, codes.astype(np.float32))


@pytest.mark.parametrize("name", TORCH)
def test_codes_decode_as_in_torch(name: str):
    fmt = FORMATS[name]
    codes = torch.arange(1 << fmt.bits).to(torch.uint16 if fmt.bits == 16 else torch.uint8)
    expected = codes.view(TORCH[name]).to(torch.float64).numpy()
    got = np.array([decode(fmt, code) for code in codes.tolist()])
    assert_same(got, expected, codes.numpy().astype(np.float32))


@pytest.mark.parametrize("name", [name for name in GFLOAT if name != "fp32"])
def test_codes_decode_as_in_gfloat(name: str):
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.bits, dtype=np.int64)
    expected = gfloat.decode_ndarray(GFLOAT[name], codes)
    assert_same(np.array([decode(fmt, code) for code in codes.tolist()]), expected, codes.astype(np.float32))


@pytest.mark.parametrize("name", TORCH)
def test_rounding_is_torchs_after_clamping(name: str):
    x, largest = inputs(name), np.float32(FORMATS[name].max_value)
    clamped = torch.from_numpy(x).clamp(-largest, largest).numpy()
    assert_same(saturated(name), through_torch(clamped, TORCH[name]), x)


@pytest.mark.parametrize("name", [name for name in TORCH if name != "e4m3"])
def test_overflow_propagates_as_in_torch(name: str):
    assert_same(rounded(name), through_torch(inputs(name), TORCH[name]), inputs(name))


def test_torch_saturates_e4m3_except_nan():
    """The difference: torch saturates what is finite and infinite, so propagation cannot be had from it."""
    assert_same(saturated("e4m3"), through_torch(inputs("e4m3"), torch.float8_e4m3fn), inputs("e4m3"))


@pytest.mark.parametrize("name", [name for name in ML_DTYPES if name not in ("e3m2", "e2m3", "e2m1", "e8m0")])
def test_rounding_is_that_of_ml_dtypes(name: str):
    assert_same(rounded(name), through_ml_dtypes(inputs(name), ML_DTYPES[name]), inputs(name))


@pytest.mark.parametrize("name", ["e3m2", "e2m3", "e2m1"])
def test_rounding_is_that_of_ml_dtypes_where_there_is_no_nan(name: str):
    """The difference: ml_dtypes makes NaN a zero; here it stays NaN."""
    x = inputs(name)
    expected = through_ml_dtypes(x, ML_DTYPES[name])
    assert np.all(expected[np.isnan(x)] == 0)
    assert np.all(np.isnan(rounded(name)[np.isnan(x)]))
    assert_same(rounded(name)[~np.isnan(x)], expected[~np.isnan(x)], x[~np.isnan(x)])


@pytest.mark.parametrize("name", [name for name in GFLOAT if name not in ("int8", "e8m0", "ue4m3", "ue5m3")])
def test_saturating_is_that_of_gfloat(name: str):
    """The difference: gfloat refuses NaN where the format has none."""
    x = inputs(name)
    x = x if FORMATS[name].nan != "none" else np.where(np.isnan(x), np.float32(0), x)
    got = np.where(np.isnan(inputs(name)) & ~np.isnan(x), 0.0, saturated(name))
    expected = gfloat.round_ndarray(GFLOAT[name], x.astype(np.float64), gfloat.RoundMode.TiesToEven, True)
    assert_same(got, expected, x)


@pytest.mark.parametrize("name", ["ue4m3", "ue5m3"])
def test_scales_without_sign_are_rounded_as_by_gfloat(name: str):
    """The difference: gfloat keeps the sign of what is negative, here it is NaN."""
    x = np.abs(inputs(name))
    expected = gfloat.round_ndarray(GFLOAT[name], x.astype(np.float64), gfloat.RoundMode.TiesToEven, True)
    assert_same(np.array([round(FORMATS[name], value) for value in x.tolist()]), expected, x)
    assert gfloat.round_float(GFLOAT[name], -1.0, gfloat.RoundMode.TiesToEven, True) == -1.0
    assert math.isnan(round(FORMATS[name], -1.0))


def test_int4_is_that_of_ml_dtypes_and_of_gfloat():
    """The difference: ml_dtypes truncates and wraps around, so it is given whole numbers within the range."""
    codes = np.arange(16, dtype=np.uint8)
    values = np.array([decode("int4", code) for code in range(16)])
    assert np.array_equal(codes.view(ml_dtypes.int4).astype(np.float64), values)
    x = np.concatenate([inputs("e2m1"), np.arange(-80, 80, dtype=np.float32) / 8])
    x = np.where(np.isnan(x), np.float32(0), x)
    got = np.array([round("int4", value) for value in x.tolist()])
    whole = np.clip(np.rint(x), -8, 7)
    assert_same(got, whole.astype(ml_dtypes.int4).astype(np.float64), x)
    as_gfloat = gfloat.FormatInfo(
        "int4",
        4,
        4,
        bias=-2,
        is_signed=True,
        domain=gfloat.Domain.Finite,
        has_nz=False,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=True,
    )
    assert_same(got, gfloat.round_ndarray(as_gfloat, x.astype(np.float64), gfloat.RoundMode.TiesToEven, True), x)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "e5m2", "e4m3", "e4m3-ieee", "e4m3fnuz", "e5m2fnuz"])
def test_propagating_and_truncating_are_those_of_gfloat(name: str):
    x = inputs(name)
    wide = x.astype(np.float64)
    assert_same(rounded(name), gfloat.round_ndarray(GFLOAT[name], wide, gfloat.RoundMode.TiesToEven, False), x)
    expected = gfloat.round_ndarray(GFLOAT[name], wide, gfloat.RoundMode.TowardZero, False)
    part = slice(0, None, 7)
    got = [round(FORMATS[name], v, rounding="toward-zero", overflow="propagate") for v in x[part].tolist()]
    assert_same(np.array(got), expected[part], x[part])


def test_int8_is_gfloats_but_symmetric():
    """The difference: gfloat uses the code -128, -2.0, which makes the grid lopsided; here -127/64 is the end."""
    x = np.where(np.isnan(inputs("int8")), np.float32(0), inputs("int8"))
    expected = gfloat.round_ndarray(GFLOAT["int8"], x.astype(np.float64), gfloat.RoundMode.TiesToEven, True)
    assert expected.min() == -2.0
    got = np.where(np.isnan(inputs("int8")), 0.0, saturated("int8"))
    assert_same(got, np.maximum(expected, -127 / 64), x)


def test_e8m0_is_that_of_the_oracles_except_ties_and_the_ends():
    """The differences: torch and ml_dtypes round ties up, and everything above 2**-127 to 2**-126 at the low end."""
    x = inputs("e8m0")
    fraction = np.frexp(x)[0]
    inner = (x >= 2.0**-126) & np.isfinite(x)
    plain = inner & (fraction != 0.75)
    for expected in (through_torch(x, torch.float8_e8m0fnu), through_ml_dtypes(x, ML_DTYPES["e8m0"])):
        assert_same(rounded("e8m0")[plain], expected[plain], x[plain])
        ties = inner & (fraction == 0.75) & (x < 2.0**127)
        assert np.array_equal(expected[ties], x[ties] / 1.5 * 2)
    even = gfloat.round_ndarray(GFLOAT["e8m0"], x.astype(np.float64), gfloat.RoundMode.TiesToEven, False)
    assert_same(rounded("e8m0")[inner], even[inner], x[inner])


@pytest.mark.parametrize(
    "name", ["bf16", "fp16", "e5m2", "e4m3", "e4m3-ieee", "e4m3fnuz", "e5m2fnuz", "e3m2", "e2m3", "e2m1"]
)
def test_stochastic_rounding_is_gfloats_fastest_with_the_bits_complemented(name: str):
    """``r < floor(2**32 f)`` and gfloat's ``f + s / 2**32 >= 1`` are the same for ``s = 2**32 - 1 - r``."""
    fmt = FORMATS[name]
    x = inputs(name)
    # Far below the smallest value gfloat's own sum of fraction and bits rounds; it is exact from here on.
    x = x[(np.abs(x) <= fmt.max_value) & (np.abs(x) >= fmt.min_subnormal / 2)][::7]
    bits = np.random.default_rng(1).integers(0, 2**32, x.size, dtype=np.uint64)
    got = [
        round(fmt, value, rounding="stochastic", bits=word)
        for value, word in zip(x.tolist(), bits.tolist(), strict=True)
    ]
    expected = gfloat.round_ndarray(
        GFLOAT[name],
        x.astype(np.float64),
        gfloat.RoundMode.StochasticFastest,
        True,
        (2**32 - 1 - bits).astype(np.int64),
        32,
    )
    assert x.size > 1000
    assert_same(np.array(got), expected, x)


@pytest.mark.parametrize(("name", "dtype"), [("fp32", np.float32), ("fp16", np.float16)])
def test_doubles_round_once_as_in_numpy(name: str, dtype: npt.DTypeLike):
    fmt = FORMATS[name]
    generator = np.random.default_rng(2)
    exponents = generator.uniform(np.log2(fmt.min_subnormal) - 2, fmt.max_exponent + 2, 20000)
    x = generator.uniform(-1, 1, 20000) * np.exp2(exponents)
    x = np.concatenate([x, (x.astype(dtype).astype(np.float64) + np.nextafter(x.astype(dtype), dtype(0))) / 2])
    got = np.array([round(fmt, value, overflow="propagate") for value in x.tolist()])
    assert_same(got, x.astype(dtype).astype(np.float64), x)


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_widening_and_rounding_back_changes_no_pattern(name: str):
    fmt = FORMATS[name]
    for code in range(1 << 16):
        value = decode(fmt, code)
        back = round(fmt, value, overflow="propagate")
        assert back == value or (math.isnan(back) and math.isnan(value))


def test_the_ends_of_e8m0_differ():
    x = np.array([0.0, 1.01 * 2.0**-127, -1.0], dtype=np.float32)
    low, next_up = 2.0**-127, 2.0**-126
    assert [round("e8m0", value) for value in x[:2].tolist()] == [low, low]
    assert math.isnan(round("e8m0", -1.0))
    assert through_torch(x, torch.float8_e8m0fnu).tolist() == [low, next_up, 1.0]
    other = through_ml_dtypes(x, ML_DTYPES["e8m0"])
    assert np.isnan(other[[0, 2]]).all()
    assert other[1] == next_up


@pytest.mark.parametrize("name", ["bf16", "fp16", "e5m2", "e4m3", "e4m3-ieee", "e4m3fnuz", "e5m2fnuz"])
def test_the_code_of_nan_is_that_of_ml_dtypes(name: str):
    bits = np.array([np.nan], dtype=np.float32).astype(ML_DTYPES[name])
    assert encode(FORMATS[name], math.nan) == bits.view(np.uint16 if FORMATS[name].bits == 16 else np.uint8)[0]


def test_torch_has_another_nan_in_e5m2():
    assert torch.tensor([math.nan]).to(torch.float8_e5m2).view(torch.uint8).item() == 0x7F
