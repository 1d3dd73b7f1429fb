"""MX casts equal those of torchao on ordinary data."""

import warnings

import pytest
import torch

from mixprec.kernels import Backend, cast_parameters
from mixprec.specs import parse_cast

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


def torchao_values(x: torch.Tensor, element: object, rule: str) -> torch.Tensor:
    mode = mx_config.ScaleCalculationMode[RULES[rule]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mx_tensor.MXTensor.to_mx(x, element, 32, mode).dequantize(torch.float32)


@pytest.mark.parametrize("rule", ["floor", "rceil", "ceil", "even"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_mx_values_equal_those_of_torchao(backend: Backend, name: str, rule: str) -> None:
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    x *= 2.0 ** torch.arange(-32, 32).unsqueeze(1).float()
    try:
        right = torchao_values(x, ELEMENTS[name], rule)
    except (AssertionError, NotImplementedError, ValueError, KeyError) as error:
        pytest.skip(f"this torchao does not make {name} {rule}: {type(error).__name__} {error}")
    carrier, _ = backend.scaled(x, cast_parameters(parse_cast(f"{name} {rule}")), 1, 0, 0)
    assert torch.equal(carrier, right)
