"""Each fault does what it says, when it says so, and nothing else."""

import copy

import pytest
import torch
from torch import nn

from mixprec import prepare, recipe
from mixprec.compare.drill import FAULTS


def _session(asked="bf16", optimizer=torch.optim.AdamW):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return prepare(model, optimizer(model.parameters(), lr=0.01), asked)


def _step(session, i=0):
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(i))
    return session.step(session.model(x).square().mean())


def _changed(session, before):
    return {name: int((value != before[name]).sum()) for name, value in session.model.state_dict().items()}


def test_the_learning_rate_is_ten_times_as_high_for_20_steps():
    session, fault = _session(), FAULTS["learning-rate"](at=3)
    seen = []
    for calls in range(30):
        session.optimizer.param_groups[0]["lr"] = 0.01
        fault.before_step(session, calls)
        seen.append(session.optimizer.param_groups[0]["lr"])
    assert seen == [0.01] * 3 + [pytest.approx(0.1)] * 20 + [0.01] * 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_one_bit_of_one_weight(dtype):
    session = _session("fp32")
    session.model.to(dtype)
    before = copy.deepcopy(session.model.state_dict())
    fault = FAULTS["bit-flip"](at=2, seed=1)
    fault.before_step(session, 1)
    assert sum(_changed(session, before).values()) == 0
    fault.before_step(session, 2)
    assert _changed(session, before) == {"0.weight": 1, "0.bias": 0, "2.weight": 0, "2.bias": 0}
    now, was = session.model[0].weight.detach(), before["0.weight"]
    place = now != was
    assert now[place].abs().item() > 1e15 * was[place].abs().item()


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)])
def test_one_infinity_in_a_moment(optimizer):
    session, fault = _session(optimizer=optimizer), FAULTS["inf-moment"](at=1)
    _step(session)
    before = copy.deepcopy(session.model.state_dict())
    fault.before_step(session, 1)
    moments = [t for state in session.optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
    assert sum(int(t.isinf().sum()) for t in moments) == 1
    assert sum(_changed(session, before).values()) == 0


def test_an_optimizer_without_moments_has_none_to_spoil():
    session = _session(optimizer=torch.optim.SGD)
    _step(session)
    FAULTS["inf-moment"](at=1).before_step(session, 1)
    assert _step(session).applied


def test_a_channel_grows_by_a_twentieth_a_step():
    session, fault = _session(), FAULTS["outlier"](at=1)
    before = session.model[0].weight.detach().clone()
    for calls in range(100):
        fault.before_step(session, calls)
    ratio = (session.model[0].weight.detach() / before).mean(1)
    assert sorted(round(r, 3) for r in ratio.tolist())[:-1] == [1.0] * 31
    assert ratio.max().item() == pytest.approx(1.05**80, rel=1e-3)


def test_ten_batches_are_noise_and_the_others_are_as_they_were():
    fault = FAULTS["poisoned-batches"](at=4)
    batch = {
        "x": torch.linspace(-1, 1, 64),
        "y": torch.tensor([3, 5, 4]),
        "mask": torch.ones(2, dtype=torch.bool),
        "n": 7,
    }
    kept = copy.deepcopy(batch)
    for number in (0, 3, 14, 20):
        assert fault.batch(number, batch) is batch
    first, again, other = fault.batch(4, batch), fault.batch(4, batch), fault.batch(13, batch)
    assert torch.equal(first["x"], again["x"])
    assert not torch.equal(first["x"], other["x"])
    assert first["x"].std().item() == pytest.approx(10 * kept["x"].std().item(), rel=0.4)
    assert set(first["y"].tolist()) <= {3, 4, 5}
    assert first["mask"] is batch["mask"]
    assert first["n"] == 7
    assert torch.equal(batch["x"], kept["x"])


@pytest.mark.parametrize("asked", ["bf16", "mxfp8", "fp32"])
def test_four_bits_at_one_site_from_a_step_on_which_widening_takes_away(asked):
    fault = FAULTS["fp4-site"](at=2, site="0")
    session = _session(fault.recipe(recipe(asked)))
    casts = []
    for i in range(3):
        casts.append(session._conversion.precisions().get("0"))
        _step(session, i)
    assert casts[1] == casts[0]
    assert str(session._conversion.precisions()["0"].fprop_input) == "e2m1[tensor]"
    session.widen("0", to="compute")
    assert "0" not in session._conversion.precisions()


def test_a_scale_that_no_longer_follows():
    fault = FAULTS["frozen-scale"](at=2, site="0")
    session = _session(fault.recipe(recipe("bf16")))
    seen = []
    for i in range(6):
        fault.before_step(session, i)
        seen += [history.clone() for history in session._conversion.histories().values()]
        _step(session, i)
    amax = torch.randn(8, 16, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16).float().abs().max()
    assert [h.unique().numel() for h in seen] == [1] * len(seen)
    assert [h[0].item() for h in seen[1:]] == [pytest.approx(amax.item() / 64)] * 3
