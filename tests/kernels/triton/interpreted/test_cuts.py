"""However a matrix is cut up, the numbers are the reference's: shapes across programs, large tiles, every transform."""

import pytest
import torch
from torch import Tensor

from mixprec.kernels import FIXED_SIGNS, Backend, Draw, SignKey, Sums, cast_parameters
from mixprec.specs import parse_cast
from tests.conformance.patterns import same
from tests.conformance.test_backends_agree import wide_normal

DRAW, OTHER_DRAW = Draw(5, 11, 2**62 + 1), Draw(-5, 2**33, 2**62)
# Cast and shape: more rows and columns than a program has, rows and columns held in one piece and not, tiles in parts.
CUTS = [
    ("e4m3[tensor]", (67, 99)),
    ("e4m3[row] sr", (5, 9001)),
    ("e4m3[row] rht16", (300, 40)),
    ("e5m2[row:e8m0] ceil", (33, 130)),
    ("mxfp8 rceil sr", (70, 333)),
    ("mxfp4 x3/4 sr rht128", (50, 300)),
    ("mxfp4 sr rht64-fresh", (150, 70)),
    ("nvfp4 sr rht16", (40, 200)),
    ("e4m3[128x128:fp32]", (150, 130)),
    ("e4m3[200x130:e8m0]", (220, 150)),
    ("e2m1[3x300:e4m3*fp32] 4/6", (7, 330)),
    ("e2m1[70x70:e8m0] quest x3/4 sr", (80, 75)),
    ("e2m1[70x70:fp32] 4/6", (75, 80)),
    ("e4m3[3x48:e8m0] ht16", (9, 100)),
    ("e4m3[130x256:fp32] rht32", (140, 300)),
]


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize(("cast", "shape"), CUTS)
def test_casts(triton: Backend, reference: Backend, cast: str, shape: tuple[int, int], axis: int) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), wide_normal(*shape, seed=9)
    got, right = (backend.scaled(x, parameters, axis, DRAW) for backend in (triton, reference))
    assert all(same(a, b) for a, b in zip(got, right, strict=True))


@pytest.mark.parametrize("cast", ["e4m3[tensor]", "e4m3[row]", "mxfp8", "nvfp4", "mxfp4 rht16"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty_matrices(triton: Backend, reference: Backend, cast: str, shape: tuple[int, int]) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), torch.zeros(shape)
    for axis in (1, 0):
        got = (*triton.scaled(x, parameters, axis, DRAW), *triton.quantize(x, parameters, axis, DRAW))
        right = (*reference.scaled(x, parameters, axis, DRAW), *reference.quantize(x, parameters, axis, DRAW))
        assert all(a.shape == b.shape and a.equal(b) for a, b in zip(got, right, strict=True))


def strided() -> list[Tensor]:
    wide = torch.randn(40, 64, generator=torch.Generator().manual_seed(5))
    return [wide[::2, 3:40], wide.T, wide[:, ::3].bfloat16(), wide[3:4].expand(5, 64).half()]


@pytest.mark.parametrize("cast", ["e4m3[tensor] sr", "mxfp4 sr", "e4m3[row]"])
def test_strides(triton: Backend, reference: Backend, cast: str) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for x in strided():
        got, right = (backend.scaled(x, parameters, 0, DRAW) for backend in (triton, reference))
        assert all(same(a, b) for a, b in zip(got, right, strict=True))


@pytest.mark.parametrize("axis", [1, 0])
def test_transforms(triton: Backend, reference: Backend, axis: int) -> None:
    x = wide_normal(65, 133, seed=14)
    for size, signs, inverse in (
        (16, None, False),
        (32, SignKey(-1, 2**62 + 3), False),
        (64, FIXED_SIGNS, True),
        (128, FIXED_SIGNS, False),
    ):
        got, right = (backend.hadamard(x, size, signs, axis, inverse) for backend in (triton, reference))
        assert same(got, right)


def test_casts_of_two_orientations(triton: Backend, reference: Backend) -> None:
    x = wide_normal(33, 70, seed=12)
    row, column = (cast_parameters(parse_cast(cast)) for cast in ("nvfp4", "nvfp4 sr rht16"))
    for method in ("scaled_both", "scaled_quantized"):
        got, right = (getattr(b, method)(x, row, column, (DRAW, OTHER_DRAW)) for b in (triton, reference))
        assert all(a.equal(b) for a, b in zip(got, right, strict=True)), method


@pytest.mark.parametrize("cast", ["e4m3[tensor] delayed", "e5m2[tensor:e8m0] delayed(1,max,2) sr propagate"])
def test_delayed_scales(triton: Backend, reference: Backend, cast: str) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), wide_normal(29, 133, seed=13)
    faulty = x.clone()
    faulty[3, 4] = float("inf")
    for values in (x, faulty):
        for amax in (torch.tensor(0.0), x.abs().amax(), torch.tensor(0.01)):
            got, right = (backend.delayed(values, parameters, DRAW, amax) for backend in (triton, reference))
            assert all(same(a, b) for a, b in zip(got, right, strict=True))


@pytest.mark.parametrize("promote_every", [0, 7])
@pytest.mark.parametrize("rounding", ["nearest-even", "toward-zero"])
def test_narrow_sums(triton: Backend, reference: Backend, rounding: str, promote_every: int) -> None:
    a, b = wide_normal(17, 24, seed=15), wide_normal(24, 70, seed=16)  # the last of its sums of 7 is not full
    a[2, 3], a[4, 5] = float("inf"), float("nan")
    for mantissa_bits in (1, 13, 22):
        sums = Sums(mantissa_bits=mantissa_bits, rounding=rounding, promote_every=promote_every)  # type: ignore[arg-type]
        assert same(triton.narrow_product(a, b, sums), reference.narrow_product(a, b, sums))
    assert same(triton.narrow_product(a[:, :0], b[:0], sums), torch.zeros(17, 70))


@pytest.mark.parametrize("name", ["e3m2", "e4m3", "fp16", "tf32", "fp32"])
def test_codes_of_every_width(triton: Backend, reference: Backend, name: str) -> None:
    parameters = cast_parameters(parse_cast(name))
    for x in (wide_normal(5, 43, seed=17), torch.zeros(0, 3), torch.zeros(3, 0)):
        right = reference.quantize(x, parameters, 1, DRAW)
        assert all(a.equal(b) for a, b in zip(triton.quantize(x, parameters, 1, DRAW), right, strict=True))
        stored = (*right, parameters, x.shape, 1)
        assert same(triton.dequantize(*stored), reference.dequantize(*stored))
