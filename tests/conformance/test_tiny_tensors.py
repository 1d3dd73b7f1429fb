"""Tensors near fp32's smallest numbers: a quant_scale ends at 2**127, and nothing is worse than that makes it."""

import pytest
import torch
from torch import Tensor

from mixprec.formats import get_format
from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast

CASTS = [
    "nvfp4",
    "nvfp4-2d",
    "nvfp4 4/6",
    "e2m1[1x16:ue5m3*fp32]",
    "e2m1[1x16:e5m2*fp32]",
    "e4m3[1x16:e4m3*fp32]",
    "int4[1x16:e4m3*fp32]",
    "e2m1[tensor]",
    "e4m3[row]",
    "e2m1[1x16:fp32]",
]


def values_of(backend: Backend, x: Tensor, cast: str) -> Tensor:
    parameters = cast_parameters(parse_cast(cast))
    carrier, outer = backend.scaled(x, parameters, 1, Draw())
    if parameters.scaling == "block" and outer.ndim:
        outer = outer.repeat_interleave(16, 1)
    return carrier.double() * outer.double()


def matrix(amax: float) -> Tensor:
    """Of that amax, with blocks down to a 30th of it."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0)).double()
    x[1::2] /= 30
    return (x * (amax / x.abs().max())).float()


@pytest.mark.parametrize("amax", [1e-30, 1e-33, 1e-35, 1e-36, 1e-37, 3e-38, 1e-38, 3e-39, 1e-39, 1e-40, 2.0**-149])
@pytest.mark.parametrize("cast", CASTS)
def test_errors_are_half_a_step(backend: Backend, cast: str, amax: float) -> None:
    """Half the widest gap under the scale of the whole tensor, or of the least that is divided by 2**127."""
    x = matrix(amax)
    fmt = get_format(parse_cast(cast).element)
    widest_gap = amax * (2.0**-fmt.mantissa_bits if fmt.kind == "float" else 1 / fmt.max_value)
    step = max(widest_gap, 2.0**-127 * fmt.min_subnormal)
    error = (values_of(backend, x, cast) - x.double()).abs().max().item()
    assert error <= step / 2 * 1.125  # a block's scale is rounded, by up to an 8th


@pytest.mark.parametrize("cast", CASTS)
def test_a_tiny_block_of_a_larger_tensor_is_not_made_smaller(backend: Backend, cast: str) -> None:
    x = matrix(1e-33)
    x[3, 16:32] = 3e-38
    value = values_of(backend, x, cast)[3, 16:32]
    assert value.eq(0.0).all() or (value / 3e-38 - 1.0).abs().max() < 0.3


def test_from_where_on_nvfp4_is_as_one_scale_per_tensor(backend: Backend) -> None:
    """docs/formats.md: below 6 * 2**-127 every block has the scale 1 under the tensor's 2**127."""
    for amax in (6 * 2.0**-127, 1e-38, 2e-39):
        assert values_of(backend, matrix(amax), "nvfp4").equal(values_of(backend, matrix(amax), "e2m1[tensor]"))
    assert not values_of(backend, matrix(2.0**-129), "nvfp4").any()
    assert values_of(backend, matrix(1.01 * 2.0**-129), "nvfp4").any()
