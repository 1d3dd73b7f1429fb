"""Values at the upper end of fp32, as docs/formats.md tells them."""

from __future__ import annotations

import math

import pytest
import torch

from mixprec.tensors import fake_quantize, quantize


@pytest.mark.parametrize(
    ("cast", "expected"),
    [
        ("mxfp4", 3 * 2.0**126),
        ("mxfp4 rceil", math.inf),
        ("mxfp4 ceil", math.inf),
        ("mxfp4 even", math.inf),
        ("mxfp8 ceil", 448 * 2.0**119),
        ("nvfp4", 3e38),
        ("bf16", 3e38),
    ],
)
def test_a_value_beyond_fp32_is_an_infinity(cast: str, expected: float):
    x = torch.full((1, 4), 3e38)
    values = fake_quantize(x, cast)
    assert values.flatten().tolist() == pytest.approx([expected] * 4, rel=2e-3)
    assert torch.equal(quantize(x, cast).dequantize(), values)


@pytest.mark.parametrize("cast", ["mxfp4 ht32", "mxfp4 sr rht32", "mxfp8 rceil rht32-fresh"])
def test_a_transform_whose_sums_leave_fp32_gives_nan(cast: str):
    assert fake_quantize(torch.full((1, 32), 3e38), cast).isnan().all()
    assert fake_quantize(torch.full((1, 32), 1e37), cast).isfinite().all()


def test_equal_elements_leave_fp32_from_the_told_limit_on():
    for value, leaves in ((1.06e37, False), (1.07e37, True)):
        assert fake_quantize(torch.full((1, 32), value), "mxfp8 ht32").isnan().any().item() is leaves
