"""Products with narrow accumulators: the plain-Python derivation, and what the accumulators of GPUs lose."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from mixprec.kernels import Backend, Sums

from . import scalar_casts
from .patterns import random_fp32, same

ROUNDINGS = ["nearest-even", "toward-zero"]


def derived(a: Tensor, b: Tensor, sums: Sums) -> Tensor:
    narrow = partial(scalar_casts.narrow, mantissa_bits=sums.mantissa_bits, rounding=sums.rounding)
    rows = scalar_casts.narrow_product(a.tolist(), b.tolist(), b.shape[1], narrow, sums.promote_every)
    return torch.tensor(rows).reshape(a.shape[0], b.shape[1])


def normal(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))


def grid(rows: int, columns: int) -> Tensor:
    """Small whole numbers: sums with many ties."""
    return torch.randint(-9, 10, (rows, columns), generator=torch.Generator().manual_seed(rows)).float()


def wide(rows: int, columns: int) -> Tensor:
    """Finite bit patterns of all exponents: sums beyond fp32, and products far below it."""
    x = random_fp32(rows * columns, seed=rows).reshape(rows, columns)
    return torch.where(x.isfinite(), x, -0.0)


def faults(rows: int, columns: int) -> Tensor:
    x = normal(rows, columns)
    x.view(-1)[:: columns + 3] = torch.tensor(float("inf"))
    x.view(-1)[5 :: 2 * columns + 1] = torch.tensor(float("nan"))
    return x


@pytest.mark.parametrize("make", [normal, grid, wide, faults])
@pytest.mark.parametrize("promote_every", [0, 1, 5, 16])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("mantissa_bits", [1, 4, 13, 22])
def test_a_narrow_product_equals_its_derivation(
    backend: Backend, mantissa_bits: int, rounding: str, promote_every: int, make: Callable[[int, int], Tensor]
) -> None:
    sums = Sums(mantissa_bits=mantissa_bits, rounding=rounding, promote_every=promote_every)  # type: ignore[arg-type]
    a, b = make(3, 16), make(16, 4)
    got = backend.narrow_product(a, b, sums)
    assert same(got, derived(a, b, sums))
    assert got.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_strides_dtypes_and_empty_matrices(backend: Backend, dtype: torch.dtype) -> None:
    sums = Sums(mantissa_bits=6, rounding="toward-zero", promote_every=4)
    a, b = normal(12, 9).to(dtype).T[::2], normal(40, 24).to(dtype)[::2, 1::3][:12]
    assert same(backend.narrow_product(a, b, sums), derived(a.float(), b.float(), sums))
    for shape in ((0, 5, 3), (2, 0, 3), (2, 5, 0)):
        empty = backend.narrow_product(torch.ones(shape[:2], dtype=dtype), torch.ones(shape[1:], dtype=dtype), sums)
        assert same(empty, torch.zeros(shape[0], shape[2]))


def test_many_mantissa_bits_are_fp32(backend: Backend) -> None:
    """Sums that fp32 holds exactly are not touched by 22 bits, and whole numbers below 2**m not by m."""
    a, b = grid(7, 300), grid(300, 5)
    right = (a.double() @ b.double()).float()
    for mantissa_bits in (14, 22):
        for rounding in ROUNDINGS:
            sums = Sums(mantissa_bits=mantissa_bits, rounding=rounding)  # type: ignore[arg-type]
            assert torch.equal(backend.narrow_product(a, b, sums), right)


def e4m3_matrices(signed: bool) -> tuple[Tensor, Tensor]:
    """Values of E4M3, K = 4096."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(8, 4096, generator=generator), torch.randn(4096, 8, generator=generator)
    a, b = (x.to(torch.float8_e4m3fn).float() for x in ((a, b) if signed else (a.abs(), b.abs())))
    return a, b


def largest_error(backend: Backend, signed: bool, sums: Sums) -> float:
    """Against sums in fp64; over the sum of magnitudes, which is the sum itself where nothing is negative."""
    a, b = e4m3_matrices(signed)
    exact, magnitudes = a.double() @ b.double(), a.abs().double() @ b.abs().double()
    return ((backend.narrow_product(a, b, sums).double() - exact).abs() / magnitudes).max().item()


def test_a_truncating_accumulator_of_14_bits_needs_promotion(backend: Backend) -> None:
    """DeepSeek-V3 (arXiv:2412.19437, section 3.3.2): about 2 % at K = 4096; promotion every 128 mends it."""
    plain = largest_error(backend, False, Sums(mantissa_bits=14, rounding="toward-zero"))
    promoted = largest_error(backend, False, Sums(mantissa_bits=14, rounding="toward-zero", promote_every=128))
    print(f"14 bits, truncated: {plain:.4f}; promoted every 128: {promoted:.5f}")
    assert plain > 0.02
    assert promoted < 0.001


def test_rounding_and_mantissa_bits_order_the_loss(backend: Backend) -> None:
    errors = {
        (bits, rounding): largest_error(backend, False, Sums(mantissa_bits=bits, rounding=rounding))  # type: ignore[arg-type]
        for bits in (12, 13, 14)
        for rounding in ROUNDINGS
    }
    print({key: f"{error:.5f}" for key, error in errors.items()})
    for rounding in ROUNDINGS:
        assert errors[12, rounding] > errors[13, rounding] > errors[14, rounding]
    for bits in (12, 13, 14):
        assert errors[bits, "toward-zero"] > 5 * errors[bits, "nearest-even"]
    assert largest_error(backend, True, Sums(mantissa_bits=14, rounding="toward-zero")) < 0.002
