"""Adam's eps is 0 in fp16: masters, or arithmetic in fp32, keep the update right; what cannot is refused."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch.nn import Parameter

import mixprec.optim
from mixprec.optim import keep_weights
from mixprec.specs import Weights

START = [1.0, -2.0, 0.5]
MOVED = [0.999, -2.001, 0.499]
# How far the full weight may be from the right one: half of a last place of what is kept, at 2.
ALLOWED = {"master": 1e-5, "split": 1e-5, "kahan": 2.0**-15, "stochastic": 2.0**-7, "true": 2.0**-7}


@pytest.mark.parametrize("kind", get_args(Weights))
@pytest.mark.parametrize("make", [torch.optim.Adam, mixprec.optim.AdamW])
@pytest.mark.parametrize(("gradient", "right"), [(0.0, START), (1e-4, MOVED)])
def test_every_keeping_of_bf16_parameters(make: type, kind: Weights, gradient: float, right: list[float]) -> None:
    p = Parameter(torch.tensor(START, dtype=torch.bfloat16))
    kept = keep_weights(make([p], lr=1e-3, eps=1e-8, weight_decay=0.0), kind)
    p.grad = torch.full_like(p, gradient)
    kept.apply(1.0)
    if gradient == 0:
        assert p.tolist() == START
    assert kept.full_weight(p).tolist() == pytest.approx(right, abs=ALLOWED[kind])


def test_fp16_parameters_that_are_rounded_to_nearest_are_computed_in_fp32_or_refused() -> None:
    for gradient, right in ((0.0, START), (1e-4, MOVED)):
        p = Parameter(torch.tensor(START, dtype=torch.float16))
        kept = keep_weights(mixprec.optim.AdamW([p], lr=1e-3, weight_decay=0.0), "true")
        p.grad = torch.full_like(p, gradient)
        kept.apply(1.0)
        assert p.tolist() == pytest.approx(right, abs=1e-3)
    p = Parameter(torch.tensor(START, dtype=torch.float16))
    with pytest.raises(ValueError, match="Adam has eps=1e-08, which is 0 in fp16"):
        keep_weights(torch.optim.Adam([p], eps=1e-8), "true")
