"""The loss scale at its ceiling and below one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixprec.specs import LossScale
from mixprec.training import Session, prepare


class Zero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.zeros(()))

    def forward(self) -> Tensor:
        return self.p


def session(scale: LossScale, lr: float = 1e-5) -> Session:
    model = Zero()
    return prepare(model, torch.optim.SGD(model.parameters(), lr=lr), "fp32", loss_scale=scale)


@pytest.mark.parametrize("initial", [2.0**120, 2.0**127])
def test_the_scale_stops_at_its_ceiling_and_says_so_once(initial: float) -> None:
    run = session(LossScale(kind="dynamic", initial=initial, interval=1))
    for _ in range(20):
        run.backward(0 * run.model())
        assert run.model.p.grad.item() == 0.0
        assert run.step().applied
    assert run.loss_scale == 2.0**127
    assert [e.message.split(":")[0] for e in run.events] == ["ceiling reached"]


@pytest.mark.parametrize("widen", [False, True])
def test_a_gradient_beyond_fp16_at_scale_one_gets_a_scale_below_one(widen: bool) -> None:
    run = session(LossScale(kind="dynamic", initial=4.0))
    values, scales, applied = [], [], []
    for _ in range(6):
        half = run.model().half()
        # The loss itself overflows fp16 in the first form; its gradient does not.
        result = run.step(1e5 * (half.float() if widen else half))
        applied.append(result.applied)
        scales.append(result.loss_scale)
        values.append(run.model.p.item())
    assert applied == [False] * 3 + [True] * 3
    assert scales == [2.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert values == pytest.approx([0.0, 0.0, 0.0, -0.9997, -1.9994, -2.999], abs=1e-3)


def test_a_fault_that_no_scale_cures_ends_at_the_floor_and_is_told() -> None:
    run = session(LossScale(kind="dynamic"))
    results = [run.step(run.model() * float("nan")) for _ in range(45)]
    assert not any(r.applied for r in results)
    assert run.loss_scale == 2.0**-24
    assert [e.name for e in run.events].count("loss scale floor") == 1
    assert "at its floor 2^-24" in results[-1].reason
    assert run.step(run.model()).applied
