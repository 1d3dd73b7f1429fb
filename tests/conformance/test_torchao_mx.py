"""MX casts equal those of torchao, in every scale mode."""

import warnings

import pytest
import torch
from torch import Tensor

from mixprec.formats import get_format
from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast

from .tensors import MATRICES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mx_tensor = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    mx_config = pytest.importorskip("torchao.prototype.mx_formats.config")

ELEMENTS = {
    "mxfp8": torch.float8_e4m3fn,
    "mxfp8-e5m2": torch.float8_e5m2,
    "mxfp6": "fp6_e2m3",
    "mxfp6-e3m2": "fp6_e3m2",
    "mxfp4": torch.float4_e2m1fn_x2,
}
RULES = {"floor": "FLOOR", "rceil": "RCEIL", "ceil": "CEIL", "even": "EVEN"}


def of_torchao(x: Tensor, element: object, rule: str) -> tuple[Tensor, Tensor]:
    """Values and codes of the scales."""
    mode = mx_config.ScaleCalculationMode[RULES[rule]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mx_tensor.MXTensor.to_mx(x, element, 32, mode)
        return made.dequantize(torch.float32), made.scale.view(torch.uint8)


def ours(backend: Backend, x: Tensor, cast: str) -> tuple[Tensor, Tensor]:
    parameters = cast_parameters(parse_cast(cast))
    return backend.scaled(x, parameters, 1, Draw())[0], backend.quantize(x, parameters, 1, Draw())[1]


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_mx_values_equal_those_of_torchao(backend: Backend, name: str, rule: str, matrix: str) -> None:
    x = MATRICES[matrix]()
    right, scales = of_torchao(x, ELEMENTS[name], rule)
    carrier, codes = ours(backend, x, f"{name} {rule}")
    differs = codes != scales
    if rule == "rceil" and matrix == "ends":
        # torchao takes ceil(log2(amax / largest)) in fp32, which loses an amax just above a power of two times the
        # largest: such a block saturates there, and not here.
        amax = x.abs().reshape(x.shape[0], -1, 32).amax(2).double()
        significand = torch.frexp(amax / get_format(parse_cast(name).element).max_value)[0][differs]
        assert ((significand > 0.5) & (significand <= 0.5 + 2.0**-23)).all()
        assert (codes[differs] == scales[differs] + 1).all()
    else:
        assert not differs.any()
    same = ~differs.repeat_interleave(32, 1)
    assert torch.equal(carrier[same], right[same])


@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
def test_faults_and_ends_of_the_scale(backend: Backend, rule: str) -> None:
    """NaN blocks and the largest blocks are the same; infinities and the smallest blocks are not."""
    x = torch.ones(6, 32)
    x[0, 3] = float("nan")
    x[1] = 1.5 * 2.0**127
    x[2] = 2.0**-118
    x[3] = 0.0
    x[4, 3] = float("inf")
    x[5] = 1.5 * 2.0**-127
    right, scales = of_torchao(x, torch.float8_e4m3fn, rule)
    carrier, codes = ours(backend, x, f"mxfp8 {rule}")
    assert codes[:4].tolist() == scales[:4].tolist()
    assert carrier[0].isnan().all()
    assert right[0].isnan().all()
    assert torch.equal(carrier[1:4], right[1:4])
    # An infinite amax makes the scale NaN here, a large number there, so that the other elements become zero.
    assert codes[4].item() == 255
    assert carrier[4].isnan().all()
    assert scales[4].item() == (254 if rule == "rceil" else 247)
    assert right[4, 0].item() == 0.0
    # A scale of 2**-127 is what elements are divided by here; torchao divides by 2**-126 (RCEIL: by 1).
    assert codes[5].item() == scales[5].item() == 0
    assert torch.equal(carrier[5], x[5])
    assert torch.equal(right[5], x[5] * (0.0 if rule == "rceil" else 0.5))
