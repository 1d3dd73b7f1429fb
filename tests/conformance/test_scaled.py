"""Every backend's scaled casts equal their plain-Python derivation, bit for bit."""

from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor

from mixprec.kernels import FIXED_SIGNS, Backend, Draw, SignKey, cast_parameters
from mixprec.specs import parse_cast

from . import scalar_casts
from .patterns import random_fp32, same

DRAW = Draw(seed=99, offset=3, sign_offset=2**62 + 5)
OTHER_DRAW = Draw(seed=-7, offset=2**40, sign_offset=2**62)
RANDOM = scalar_casts.Random(DRAW.seed, DRAW.offset, DRAW.sign_offset)
CASTS = [
    "mxfp4 quest ht32",
    "e2m1[2x3:e8m0] quest x3/4 sr",
    "bf16",
    "nf4 sr",
    "e4m3[tensor]",
    "e5m2[tensor] sr",
    "e5m2[tensor] propagate",
    "e2m1[tensor] rtz",
    "e4m3fnuz[tensor:e8m0] rceil",
    "e4m3[row]",
    "int8[row] sr",
    "int4[row] x63/64",
    "int4[1x16:e4m3*fp32]",
    "int4[2x8:ue5m3] sr",
    "e2m1[1x16:e2m5*fp32] sr",
    "e4m3[row:e8m0] rceil",
    "e4m3[row:e8m0] x3/4 sr rht16",
    "mxfp8",
    "mxfp8 rceil",
    "mxfp8-e5m2 ceil",
    "mxfp8 even sr",
    "mxfp6",
    "mxfp6-e3m2 rceil rtz",
    "mxfp4",
    "mxfp4 ceil",
    "mxfp4 rceil sr",
    "mxfp4 even",
    "mxfp4 sr rht32",
    "mxfp4 x3/4 sr rht64-fresh",
    "mxint8",
    "mxint8 rceil",
    "mxint8 even",
    "nf4[1x8:e8m0] rceil",
    "e4m3[3x8:e8m0]",
    "e4m3[1x16:fp32]",
    "e4m3[16x16:fp32] sr",
    "e2m1[1x16:fp32] 4/6",
    "nf4[1x16:fp32]",
    "nvfp4",
    "nvfp4 sr",
    "nvfp4 rtz",
    "nvfp4-2d",
    "nvfp4 4/6",
    "e2m1[3x5:e4m3*fp32] 4/6",
    "nvfp4 sr rht16",
    "nvfp4-2d rht16-fresh",
    "nvfp4 ht64",
    "e2m1[1x16:e4m3]",
    "e2m1[1x16:ue5m3] sr",
    "e2m1[1x16:ue5m3] 4/6",
    "e4m3fnuz[2x8:e5m2fnuz*fp32] x1/2",
]


def _normal() -> Tensor:
    return torch.randn(19, 37, generator=torch.Generator().manual_seed(0))


def _wide() -> Tensor:
    """Finite bit patterns of all exponents."""
    x = random_fp32(19 * 37, seed=4).reshape(19, 37)
    return torch.where(x.isfinite(), x, 1.5)


def _extremes() -> Tensor:
    """Zero rows and blocks, subnormals, values near fp32's largest, powers of two and their neighbours."""
    x = torch.zeros(19, 70)
    x[1] = torch.arange(70) * 2.0**-149
    x[2, :35] = 2.0**-126
    x[3] = torch.tensor((2 - 2.0**-23) * 2.0**127) / (1 + torch.arange(70))
    x[4] = -torch.tensor((2 - 2.0**-23) * 2.0**127)
    x[5, 3] = 1e-39
    x[6, ::5] = torch.tensor(448.0).nextafter(torch.tensor(999.0))
    x[7, ::5] = torch.tensor(2.0).nextafter(torch.tensor(0.0))
    x[8] = -0.0
    x[9, 40:] = 1.75 * 2.0**127
    return x


def _tops() -> Tensor:
    """Blocks whose largest element is a format's largest value times a power of two, or its neighbour."""
    tops = torch.tensor([448.0, 240.0, 57344.0, 28.0, 7.5, 7.0, 6.0, 127 / 64, 1.0])
    around = torch.cat((tops.nextafter(torch.tensor(0.0)), tops, tops.nextafter(torch.tensor(1e9))))
    x = torch.cat((around * 2.0**-3, around * 2.0**-140, around)).unsqueeze(1) * torch.linspace(1, -1, 32)
    return x.contiguous()


def _one_tiny() -> Tensor:
    x = torch.zeros(3, 20)
    x[1, 2] = -1e-39
    return x


def _tiny() -> Tensor:
    """A tensor near fp32's smallest, with blocks of every smaller binade: scales reach 2**127 and stop there."""
    binades = torch.arange(-149, -112).float().unsqueeze(1)
    return torch.randn(37, 32, generator=torch.Generator().manual_seed(2)) * 2.0**binades


def _faults() -> Tensor:
    x = _normal()
    x[2, 3], x[5, 36], x[11, 0] = float("nan"), float("inf"), float("-inf")
    return x


MATRICES = {
    "normal": _normal,
    "wide": _wide,
    "extremes": _extremes,
    "tops": _tops,
    "one tiny": _one_tiny,
    "tiny": _tiny,
    "tinier": lambda: _tiny()[:20] / 2,
    "all zero": lambda: torch.zeros(2, 5),
    "faults": _faults,
    "one nan": lambda: torch.tensor([[float("nan"), 1.0]]),
    "one element": lambda: torch.tensor([[-3.3]]),
    "no rows": lambda: torch.zeros(0, 5),
    "no columns": lambda: torch.zeros(5, 0),
}


@dataclass(frozen=True)
class Derived:
    """The plain-Python result as tensors."""

    carrier: Tensor
    outer: Tensor
    codes: Tensor
    scales: Tensor


def as_tensor(rows: list[list[float]], width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(rows, dtype=dtype).reshape(len(rows), width)


def derive(x: Tensor, cast: str, axis: int, random: scalar_casts.Random, amax: float = 0.0) -> Derived:
    parameters = cast_parameters(parse_cast(cast))
    size = parameters.transform or 1
    columns = -(-x.shape[1] // size) * size if axis else x.shape[1]
    tile_columns = -(-columns // parameters.matrix_tile(axis)[1])
    result = scalar_casts.scaled(x.tolist(), x.shape[1], cast, axis, random, amax)
    codes, scales = scalar_casts.codes_of(result, cast, columns)
    outer = torch.tensor(result.outer) if isinstance(result.outer, float) else None
    if outer is None:
        width = tile_columns if parameters.scaling == "block" else 1 if axis else columns
        outer = as_tensor(result.outer, width)  # type: ignore[arg-type]
    has_codes = parameters.scaling == "block" and parameters.scale != "fp32"
    return Derived(
        carrier=as_tensor(result.carrier, columns),
        outer=outer,
        codes=as_tensor(codes, -(-columns * parameters.grid.bits // 8), torch.uint8),  # type: ignore[arg-type]
        scales=as_tensor(scales, tile_columns, torch.uint8) if has_codes else torch.empty(0, dtype=torch.uint8),  # type: ignore[arg-type]
    )


@cache
def derived(matrix: str, cast: str, axis: int) -> Derived:
    return derive(MATRICES[matrix](), cast, axis, RANDOM)


def value_of(carrier: Tensor, outer: Tensor, cast: str, axis: int) -> Tensor:
    parameters = cast_parameters(parse_cast(cast))
    if parameters.scaling == "block" and outer.ndim:
        rows, columns = parameters.matrix_tile(axis)
        outer = outer.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
        outer = outer[: carrier.shape[0], : carrier.shape[1]]
    return carrier * outer


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
def test_scaled_equals_its_derivation(backend: Backend, cast: str, axis: int) -> None:
    for matrix, make in MATRICES.items():
        carrier, outer = backend.scaled(make(), cast_parameters(parse_cast(cast)), axis, DRAW)
        right = derived(matrix, cast, axis)
        assert same(outer, right.outer), matrix
        assert same(carrier, right.carrier), matrix
        assert carrier.is_contiguous()


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
def test_codes_equal_their_derivation(backend: Backend, cast: str, axis: int) -> None:
    for matrix, make in MATRICES.items():
        codes, scales, outer = backend.quantize(make(), cast_parameters(parse_cast(cast)), axis, DRAW)
        right = derived(matrix, cast, axis)
        assert codes.dtype == scales.dtype == torch.uint8
        assert codes.equal(right.codes), matrix
        assert scales.equal(right.scales), matrix
        assert same(outer, right.outer), matrix


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
def test_codes_hold_the_values_and_the_carrier(backend: Backend, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for matrix in MATRICES:
        right = derived(matrix, cast, axis)
        carrier, stored = right.carrier, (right.codes, right.scales)
        values = backend.dequantize(*stored, right.outer, parameters, carrier.shape, axis)
        expected = value_of(carrier, right.outer, cast, axis)
        if parameters.grid.nan_code < 0 and parameters.scaling == "none":
            expected = torch.where(expected.isnan(), 0.0, expected)
        assert same(values, expected), matrix
        if parameters.grid.nan_code < 0 and not right.scales.numel():
            carrier = torch.where(carrier.isnan(), 0.0, carrier)  # the outer scale is what tells
        out = torch.full(carrier.shape, 7.0)
        assert backend.dequantize(*stored, None, parameters, carrier.shape, axis, out=out) is out
        assert same(out, carrier), matrix


def test_scale_codes_of_special_blocks(backend: Backend) -> None:
    x = torch.zeros(1, 64)
    x[0, 32], x[0, 48] = 1.0, 1e-9
    for cast, codes in (
        ("mxfp4", [0, 125]),
        ("nvfp4", [0x38, 0x38, 0x7E, 0x38]),
        ("nvfp4-2d", [0x38, 0x38, 0x7E, 0x38]),
        ("nvfp4 4/6", [0x38, 0x38, 0x78, 0x38]),
        ("e2m1[1x16:ue4m3*fp32]", [0x38, 0x38, 0x7E, 0x38]),
        ("e2m1[1x16:e4m3fnuz*fp32]", [0x40, 0x40, 0x7F, 0x40]),
        ("e2m1[1x16:ue5m3]", [0x78, 0x78, 0x63, 0x78]),
    ):
        assert backend.quantize(x, cast_parameters(parse_cast(cast)), 1, DRAW)[1].tolist() == [codes], cast
    x[0, 33] = float("nan")
    for cast, codes in (
        ("mxfp4", [0, 255]),
        ("nvfp4", [0x7F] * 4),
        ("e2m1[1x16:e4m3fnuz*fp32]", [0x80] * 4),
        ("e2m1[1x16:ue5m3]", [0x78, 0x78, 0xFF, 0x78]),
    ):
        assert backend.quantize(x, cast_parameters(parse_cast(cast)), 1, DRAW)[1].tolist() == [codes], cast


PAIRS = [
    ("mxfp8 sr", "nvfp4 sr rht16"),
    ("e4m3[row]", "mxfp4 rceil"),
    ("nvfp4-2d", "bf16"),
    ("e4m3[1x16:fp32]", "mxfp4 x3/4 sr rht32-fresh"),
    ("nvfp4 4/6", "e4m3[128x128:fp32]"),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_scaled_both_is_two_casts(backend: Backend, pair: tuple[str, str]) -> None:
    row, column = (cast_parameters(parse_cast(cast)) for cast in pair)
    for x in (_normal(), _extremes().bfloat16(), _faults().half().T):
        got = backend.scaled_both(x, row, column, (DRAW, OTHER_DRAW))
        right = (*backend.scaled(x, row, 1, DRAW), *backend.scaled(x, column, 0, OTHER_DRAW))
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
        assert all(a.is_contiguous() for a in got)
        given = tuple(torch.full_like(carrier, 7.0) for carrier in (right[0], right[2]))
        into = backend.scaled_both(x, row, column, (DRAW, OTHER_DRAW), out=given)
        assert into[0] is given[0]
        assert into[2] is given[1]
        assert all(same(a, b) for a, b in zip(into, right, strict=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_scaled_quantized_is_a_cast_and_codes(backend: Backend, pair: tuple[str, str]) -> None:
    row, column = (cast_parameters(parse_cast(cast)) for cast in pair)
    for x in (_normal(), _extremes().bfloat16(), _faults().half().T):
        carrier, outer = backend.scaled(x, row, 1, DRAW)
        codes = backend.quantize(x, column, 0, OTHER_DRAW)
        for out in (None, torch.full_like(carrier, 7.0)):
            got = backend.scaled_quantized(x, row, column, (DRAW, OTHER_DRAW), out=out)
            assert same(got[0], carrier)
            assert same(got[1], outer)
            assert out is None or got[0] is out
            assert all(a.equal(b) for a, b in zip(got[2:4], codes[:2], strict=True))
            assert same(got[4], codes[2])


DELAYED = [
    "e4m3[tensor] delayed",
    "e5m2[tensor] delayed(4,recent,2) sr propagate",
    "e4m3[tensor:e8m0] delayed(1,max,1) x3/4",
    "int8[tensor] delayed rtz",
    "nf4[tensor] delayed(2)",
]


@pytest.mark.parametrize("amax", [0.0, 1e-39, 0.37, 3.0, 1e30])
@pytest.mark.parametrize("cast", DELAYED)
def test_delayed_scales_equal_their_derivation(backend: Backend, cast: str, amax: float) -> None:
    parameters, given = cast_parameters(parse_cast(cast)), torch.tensor(amax)
    for matrix in ("normal", "wide", "one tiny", "faults", "all zero", "no rows"):
        x = MATRICES[matrix]()
        carrier, outer, new_amax = backend.delayed(x, parameters, DRAW, given)
        right = derive(x, cast, 1, RANDOM, given.item())
        assert same(carrier, right.carrier)
        assert same(outer, right.outer)
        assert same(new_amax, backend.amax(x))
        out = torch.full_like(carrier, 7.0)
        assert backend.delayed(x, parameters, DRAW, given, out=out)[0] is out
        assert same(out, carrier)


def test_a_fault_spoils_no_delayed_scale(backend: Backend) -> None:
    x = torch.tensor([[1.0, float("nan"), float("-inf"), 900.0]])
    for cast, right in (
        ("e4m3[tensor] delayed", [448.0, float("nan"), -448.0, 448.0]),
        ("e4m3[tensor] delayed propagate", [448.0, float("nan"), float("nan"), float("nan")]),
        ("e5m2[tensor] delayed propagate", [57344.0, float("nan"), float("-inf"), float("inf")]),
    ):
        carrier, outer, new_amax = backend.delayed(x, cast_parameters(parse_cast(cast)), DRAW, torch.tensor(1.0))
        assert same(carrier, torch.tensor([right]))
        assert outer.isfinite()
        assert new_amax.isnan()
        assert backend.delayed(x, cast_parameters(parse_cast(cast)), DRAW, torch.tensor(0.0))[0].isnan().all()


@pytest.mark.parametrize(
    "cast",
    ["mxfp8 rceil", "nvfp4 sr", "e4m3[row]", "e5m2[tensor]", "nvfp4-2d 4/6", "e4m3[1x8:fp32]", "mxfp4 rht16-fresh"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_strides_and_dtypes_do_not_matter(backend: Backend, cast: str, dtype: torch.dtype) -> None:
    parameters = cast_parameters(parse_cast(cast))
    wide = torch.randn(40, 64, generator=torch.Generator().manual_seed(5)).to(dtype)
    for x in (wide[::2, 3:40], wide.T, wide[:, ::3], wide[3:4].expand(5, 64)):
        for axis in (0, 1):
            got = backend.scaled(x, parameters, axis, DRAW)
            right = backend.scaled(x.float().contiguous(), parameters, axis, DRAW)
            assert all(same(a, b) for a, b in zip(got, right, strict=True))
            codes = backend.quantize(x, parameters, axis, DRAW)
            right = backend.quantize(x.float().contiguous(), parameters, axis, DRAW)
            assert all(torch.equal(a, b) for a, b in zip(codes, right, strict=True))


@pytest.mark.parametrize("signs", [None, FIXED_SIGNS, SignKey(-3, 2**62 + 11)])
@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_hadamard_equals_its_derivation(backend: Backend, size: int, signs: SignKey | None) -> None:
    x = torch.cat((_normal(), _extremes()[:, :37]))
    key = (signs.seed, signs.offset) if signs else None
    right = torch.tensor([scalar_casts.hadamard(row, size, key) for row in x.tolist()])
    assert same(backend.hadamard(x, size, signs, 1, False), right)
    assert same(backend.hadamard(x.T, size, signs, 0, False), right.T.contiguous())
    out = torch.full_like(right, 7.0)
    assert backend.hadamard(x, size, signs, 1, False, out=out) is out
    assert same(out, right)
    x = _normal()
    back = backend.hadamard(backend.hadamard(x, size, signs, 1, False), size, signs, 1, True)
    torch.testing.assert_close(back[:, :37], x, rtol=0, atol=2e-6)
    assert (back[:, 37:].abs() < 2e-6).all()


def test_amax(backend: Backend) -> None:
    assert backend.amax(_normal()).item() == _normal().abs().max().item()
    assert backend.amax(torch.tensor(-2.0)).item() == 2.0
    assert backend.amax(torch.zeros(0, 3)).item() == 0.0
    assert backend.amax(torch.tensor([1.0, float("-inf")])).item() == float("inf")
    assert backend.amax(torch.tensor([float("nan"), float("inf")])).isnan()
    assert backend.amax(torch.ones(3, 4, 5).half()[:, 1]).dtype == torch.float32
    assert backend.amax(torch.full((7,), 2.0**-149)).item() == 2.0**-149


def test_round_takes_any_shape(backend: Backend) -> None:
    parameters = cast_parameters(parse_cast("e4m3 sr"))
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(6))
    right = backend.round(x.reshape(-1), parameters, DRAW)
    assert same(backend.round(x, parameters, DRAW).reshape(-1), right)
    turned = x.permute(2, 0, 1)
    right = backend.round(turned.reshape(-1), parameters, DRAW)
    assert same(backend.round(turned, parameters, DRAW).reshape(-1), right)
    assert backend.round(torch.tensor(0.3), parameters, DRAW).shape == ()
    assert backend.round(torch.zeros(0, 4), parameters, DRAW).shape == (0, 4)
