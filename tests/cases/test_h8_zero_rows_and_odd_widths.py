"""A row of zeros, a row of nearly nothing, and widths that no block divides."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mixprec


def test_zero_row() -> None:
    weight = torch.tensor([[1.0, -2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]])
    quantized = mixprec.quantize(weight, "e4m3[row]")
    want = torch.tensor([[1.0, -2.0, 2.8571, 4.0], [0.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(quantized.dequantize(), want, atol=1e-3, rtol=0)
    torch.testing.assert_close(mixprec.fake_quantize(weight, "e4m3[row]"), want, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    "cast", ["e4m3[row]", "e4m3[tensor]", "mxfp8", "mxfp8 rceil", "mxfp4", "nvfp4", "nvfp4-2d", "mxint8"]
)
@pytest.mark.parametrize("amax", [0.0, 1e-45, 1e-39, 3e38])
def test_tiny_and_huge_rows_are_finite(cast: str, amax: float) -> None:
    x = torch.zeros(3, 40)
    x[1, 7] = amax
    for got in (mixprec.quantize(x, cast).dequantize(), mixprec.fake_quantize(x, cast)):
        assert torch.isfinite(got).all()
        assert got.abs().sum() == got[1, 7].abs()


@pytest.mark.parametrize("shape", [(712, 896), (767, 10)])
@pytest.mark.parametrize("name", ["fp8", "mxfp8"])
def test_awkward_widths(shape: tuple[int, int], name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(*shape))
    x = torch.randn(5, shape[0])
    plain = model(x)
    conversion = mixprec.convert(model, name)
    with conversion.measured():
        y = model(x)
        y.sum().backward()
    audit = conversion.audit()
    assert y.shape == plain.shape
    assert {row.engine for row in audit.rows} == {"emulated"}
    assert not audit.uncovered
    error = ((y - plain).norm() / plain.norm()).item()
    assert 1e-4 < error < 6e-2
    # Equal to an emulation that knows no padding.
    cast = "e4m3[tensor]" if name == "fp8" else "mxfp8 rceil"
    want = mixprec.fake_quantize(x, cast) @ mixprec.fake_quantize(model[0].weight.detach(), cast).t() + model[0].bias
    torch.testing.assert_close(y, want, atol=1e-5 * want.abs().max().item(), rtol=1e-5)
