from __future__ import annotations

import math

import pytest
import torch
from torch.nn import Parameter

from mixprec.optim import scale_gradients
from mixprec.training._gradients import divide, measure


def measured_of(params, losses=()):
    return measure([p.grad for p in params], losses)


def with_gradient(grad):
    p = Parameter(torch.zeros(grad.shape, dtype=grad.dtype))
    p.grad = grad
    return p


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("factor", [1.0, 2.0**100, 2.0**-100, 2.0**-126])
def test_norms_are_right_wherever_the_elements_are(dtype, factor):
    params = [
        with_gradient(torch.tensor([3.0, 0.0]).to(dtype) * factor),
        with_gradient(torch.tensor(4.0).to(dtype) * factor),
    ]
    measured = measured_of(params, [torch.tensor(1.5)])
    assert measured.total == pytest.approx(5.0 * factor, rel=1e-6)
    assert measured.is_finite
    assert measured.losses == (1.5,)


def test_a_norm_beyond_fp32_is_no_fault():
    measured = measured_of([with_gradient(torch.full((4,), 3e38))], [])
    assert measured.is_finite
    assert measured.total == pytest.approx(6e38, rel=1e-6)


def test_a_norm_beyond_fp64_squares():
    measured = measured_of([with_gradient(torch.full((4,), 1e200, dtype=torch.float64))], [])
    assert measured.total == pytest.approx(2e200, rel=1e-12)


def test_subnormal_gradients():
    tiny = 2.0**-149
    assert measured_of([with_gradient(torch.tensor([3 * tiny, 4 * tiny]))], []).total == pytest.approx(5 * tiny)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_bad_elements_are_seen_wherever_they_are(bad):
    for dtype in (torch.float32, torch.float16, torch.float64):
        grads = [torch.ones(100).to(dtype), torch.ones(33).to(dtype), torch.zeros(0).to(dtype)]
        grads[1][17] = bad
        measured = measured_of([with_gradient(g) for g in grads], [])
        assert [math.isfinite(n) for n in measured.norms] == [True, False, True]
        assert math.isnan(measured.total) == math.isnan(bad)


def test_nan_wins_over_inf():
    assert math.isnan(
        measured_of([with_gradient(torch.tensor([math.inf])), with_gradient(torch.tensor([math.nan]))], []).total
    )


def test_sparse_gradients_are_coalesced_before_they_are_measured():
    p = Parameter(torch.zeros(4, 2))
    p.grad = torch.sparse_coo_tensor([[1, 1]], [[1.5, 2.0], [1.5, 2.0]], (4, 2), check_invariants=True)
    assert measured_of([p], []).total == pytest.approx(5.0)
    scale_gradients([p], 2.0)
    divide([p], 4.0)
    assert p.grad.to_dense()[1].tolist() == [1.5, 2.0]


def test_complex_gradients():
    p = with_gradient(torch.tensor([3 + 4j]))
    assert measured_of([p], []).total == pytest.approx(5.0)
    divide([p], 2.0)
    assert p.grad.item() == 1.5 + 2j


def test_dividing_by_the_largest_scale_is_exact():
    p = with_gradient(torch.tensor([1.0, 3.0]))
    divide([p], 2.0**127)
    assert p.grad.tolist() == [2.0**-127, 3 * 2.0**-127]


def test_fp16_gradients_are_divided_in_fp32():
    p = with_gradient(torch.tensor([4.0], dtype=torch.float16))
    divide([p], 65536.0)
    assert p.grad.item() == 2.0**-14
