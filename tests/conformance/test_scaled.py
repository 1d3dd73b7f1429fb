"""Every backend's scaled casts equal their plain-Python derivation, bit for bit."""

from functools import cache

import pytest
import torch
from torch import Tensor

from mixprec import formats
from mixprec.kernels import Backend, cast_parameters
from mixprec.specs import parse_cast

from . import scalar_casts
from .patterns import random_fp32, same

SEED, OFFSET = 99, 3
CASTS = [
    "bf16",
    "e4m3[tensor]",
    "e5m2[tensor] sr",
    "e5m2[tensor] propagate",
    "e2m1[tensor] rtz",
    "e4m3[row]",
    "int8[row] sr",
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
    "mxint8",
    "mxint8 rceil",
    "mxint8 even",
    "e4m3[3x8:e8m0]",
    "nvfp4",
    "nvfp4 sr",
    "nvfp4-2d",
    "nvfp4 sr rht16",
    "nvfp4 ht64",
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
    tops = torch.tensor([448.0, 57344.0, 28.0, 7.5, 6.0, 127 / 64, 1.0])
    around = torch.cat((tops.nextafter(torch.tensor(0.0)), tops, tops.nextafter(torch.tensor(1e9))))
    x = torch.cat((around * 2.0**-3, around * 2.0**-140, around)).unsqueeze(1) * torch.linspace(1, -1, 32)
    return x.contiguous()


def _one_tiny() -> Tensor:
    x = torch.zeros(3, 20)
    x[1, 2] = -1e-39
    return x


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
    "all zero": lambda: torch.zeros(2, 5),
    "faults": _faults,
    "one nan": lambda: torch.tensor([[float("nan"), 1.0]]),
    "one element": lambda: torch.tensor([[-3.3]]),
    "no rows": lambda: torch.zeros(0, 5),
    "no columns": lambda: torch.zeros(5, 0),
}


@cache
def derived(matrix: str, cast: str, axis: int) -> tuple[Tensor, Tensor]:
    x = MATRICES[matrix]()
    carrier, outer = scalar_casts.scaled(x.tolist(), x.shape[1], cast, axis, SEED, OFFSET)
    size = parse_cast(cast).transform or 1
    shape = (x.shape[0], -(-x.shape[1] // size) * size) if axis else (-(-x.shape[0] // size) * size, x.shape[1])
    if not isinstance(outer, float):
        outer_shape = (x.shape[0], 1) if axis else (1, x.shape[1])
        return torch.tensor(carrier).reshape(shape), torch.tensor(outer).reshape(outer_shape)
    return torch.tensor(carrier).reshape(shape), torch.tensor(outer)


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("matrix", MATRICES)
def test_scaled_equals_its_derivation(backend: Backend, matrix: str, cast: str, axis: int) -> None:
    carrier, outer = backend.scaled(MATRICES[matrix](), cast_parameters(parse_cast(cast)), axis, SEED, OFFSET)
    right_carrier, right_outer = derived(matrix, cast, axis)
    assert same(outer, right_outer)
    assert same(carrier, right_carrier)
    assert carrier.is_contiguous()


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("matrix", MATRICES)
def test_codes_hold_the_same_values(backend: Backend, matrix: str, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    x = MATRICES[matrix]()
    carrier, outer = backend.scaled(x, parameters, axis, SEED, OFFSET)
    codes, scales, code_outer = backend.quantize(x, parameters, axis, SEED, OFFSET)
    values = backend.dequantize(codes, scales, code_outer, parameters, carrier.shape, axis)
    assert same(code_outer, outer)
    if parameters.scaling == "none" and parameters.nan_code < 0:
        carrier = torch.where(carrier.isnan(), 0.0, carrier)
    assert same(values, carrier * outer)
    assert codes.dtype == scales.dtype == torch.uint8


@pytest.mark.parametrize("cast", CASTS)
def test_codes_are_packed_as_documented(backend: Backend, cast: str) -> None:
    """Element codes of the first row, read bit by bit, decode to carrier over scale."""
    parameters = cast_parameters(parse_cast(cast))
    x = _normal()
    carrier, _ = backend.scaled(x, parameters, 1, SEED, OFFSET)
    codes, scales, _ = backend.quantize(x, parameters, 1, SEED, OFFSET)
    rows, columns = carrier.shape
    assert codes.shape == (rows, -(-columns * parameters.bits // 8))
    stream = int.from_bytes(bytes(codes[0].tolist()), "little")
    for j in range(columns):
        code = (stream >> (j * parameters.bits)) & ((1 << parameters.bits) - 1)
        value = formats.decode(parameters.element, code)
        if parameters.scaling in ("mx", "two-level"):
            scale_format = "e8m0" if parameters.scaling == "mx" else "e4m3"
            value *= formats.decode(scale_format, int(scales[0, j // parameters.reduction]))
        assert value == carrier[0, j].item()
    assert stream >> (columns * parameters.bits) == 0


def test_scale_codes_of_special_blocks(backend: Backend) -> None:
    x = torch.zeros(1, 64)
    x[0, 32], x[0, 48] = 1.0, 1e-9
    for cast, codes in (
        ("mxfp4", [0, 125]),
        ("nvfp4", [0x38, 0x38, 0x7E, 0x38]),
        ("nvfp4-2d", [0x38, 0x38, 0x7E, 0x38]),
    ):
        assert backend.quantize(x, cast_parameters(parse_cast(cast)), 1, 0, 0)[1].tolist() == [codes]
    x[0, 33] = float("nan")
    for cast, codes in (("mxfp4", [0, 255]), ("nvfp4", [0x7F] * 4)):
        assert backend.quantize(x, cast_parameters(parse_cast(cast)), 1, 0, 0)[1].tolist() == [codes]


@pytest.mark.parametrize("pair", [("mxfp8 sr", "nvfp4 sr rht16"), ("e4m3[row]", "mxfp4 rceil"), ("nvfp4-2d", "bf16")])
def test_scaled_both_is_two_casts(backend: Backend, pair: tuple[str, str]) -> None:
    row, column = (cast_parameters(parse_cast(cast)) for cast in pair)
    for x in (_normal(), _extremes().bfloat16(), _faults().half().T):
        got = backend.scaled_both(x, row, column, SEED, OFFSET)
        right = (*backend.scaled(x, row, 1, SEED, OFFSET), *backend.scaled(x, column, 0, SEED, OFFSET + 1))
        assert all(same(a, b) for a, b in zip(got, right, strict=True))
        assert all(a.is_contiguous() for a in got)


@pytest.mark.parametrize("cast", ["mxfp8 rceil", "nvfp4 sr", "e4m3[row]", "e5m2[tensor]", "nvfp4-2d"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_strides_and_dtypes_do_not_matter(backend: Backend, cast: str, dtype: torch.dtype) -> None:
    parameters = cast_parameters(parse_cast(cast))
    wide = torch.randn(40, 64, generator=torch.Generator().manual_seed(5)).to(dtype)
    for x in (wide[::2, 3:40], wide.T, wide[:, ::3], wide[3:4].expand(5, 64)):
        for axis in (0, 1):
            got = backend.scaled(x, parameters, axis, SEED, OFFSET)
            right = backend.scaled(x.float().contiguous(), parameters, axis, SEED, OFFSET)
            assert all(same(a, b) for a, b in zip(got, right, strict=True))
            codes = backend.quantize(x, parameters, axis, SEED, OFFSET)
            right = backend.quantize(x.float().contiguous(), parameters, axis, SEED, OFFSET)
            assert all(torch.equal(a, b) for a, b in zip(codes, right, strict=True))


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_hadamard_equals_its_derivation(backend: Backend, size: int, signs: bool) -> None:
    x = torch.cat((_normal(), _extremes()[:, :37]))
    right = torch.tensor([scalar_casts.hadamard(row, size, signs) for row in x.tolist()])
    assert same(backend.hadamard(x, size, signs, 1, False), right)
    assert same(backend.hadamard(x.T, size, signs, 0, False), right.T.contiguous())
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
    right = backend.round(x.reshape(-1), parameters, SEED, OFFSET)
    assert same(backend.round(x, parameters, SEED, OFFSET).reshape(-1), right)
    turned = x.permute(2, 0, 1)
    right = backend.round(turned.reshape(-1), parameters, SEED, OFFSET)
    assert same(backend.round(turned, parameters, SEED, OFFSET).reshape(-1), right)
    assert backend.round(torch.tensor(0.3), parameters, SEED, OFFSET).shape == ()
    assert backend.round(torch.zeros(0, 4), parameters, SEED, OFFSET).shape == (0, 4)
