"""The loss scale at its ceiling and below one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import mixprec.optim
from mixprec.specs import LossScale
from mixprec.training import Session, prepare


class Zero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.zeros(()))

    def forward(self) -> Tensor:
        return self.p


def session(scale: LossScale, lr: float = 1e-5, kind: type[torch.optim.Optimizer] = torch.optim.SGD) -> Session:
    model = Zero()
    return prepare(model, kind(model.parameters(), lr=lr), "fp32", loss_scale=scale)


@pytest.mark.parametrize("initial", [2.0**120, 2.0**127])
def test_the_scale_stops_at_its_ceiling_and_says_so_once(initial: float) -> None:
    run = session(LossScale(kind="dynamic", initial=initial, interval=1))
    for _ in range(20):
        run.backward(0 * run.model())
        assert run.model.p.grad.item() == 0.0
        assert run.step().applied
    assert run.loss_scale == 2.0**127
    assert [e.message.split(":")[0] for e in run.events] == ["ceiling reached"]


def test_hysteresis_delays_the_shrinking_and_says_so() -> None:
    run = session(LossScale(kind="dynamic", initial=4.0, hysteresis=2))
    results = [run.step(run.model() * float("inf")) for _ in range(3)]
    assert [r.loss_scale for r in results] == [4.0, 2.0, 1.0]
    assert results[0].reason.endswith("loss scale stays 4: 1 of 2 overflows that shrink it")


@pytest.mark.parametrize("initial", [2.0**120, 2.0**127])
@pytest.mark.parametrize("clip_norm", [None, 2.0**-10])
@pytest.mark.parametrize("kind", [torch.optim.SGD, mixprec.optim.SGD])
def test_an_update_at_a_scale_near_the_ceiling_keeps_its_bits(
    initial: float, clip_norm: float | None, kind: type[torch.optim.Optimizer]
) -> None:
    weights = []
    for scale in (initial, 1.0):
        model = Zero()
        run = prepare(model, kind(model.parameters(), lr=1.0), "fp32", loss_scale=scale, clip_norm=clip_norm)
        for _ in range(3):
            assert run.step(model() * 0.7 * 2.0**-7).applied  # with the scale and the clipping below 2^-126
        weights.append(model.p.item())
    assert weights[0] == weights[1] != 0.0


@pytest.mark.parametrize("kind", [torch.optim.SGD, mixprec.optim.SGD])
@pytest.mark.parametrize("widen", [False, True])
def test_a_gradient_beyond_fp16_at_scale_one_gets_a_scale_below_one(
    widen: bool, kind: type[torch.optim.Optimizer]
) -> None:
    run = session(LossScale(kind="dynamic", initial=4.0), kind=kind)
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
    (alarm,) = [e.message for e in run.events if e.name == "loss scale alarm"]
    assert alarm.startswith("20 steps in a row were skipped: nothing is learned")
    assert "at its floor 2^-24" in results[-1].reason
    assert run.step(run.model()).applied
