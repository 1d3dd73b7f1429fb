"""Each fault does what it says, when it says so, and nothing else."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from mixprec import prepare, recipe
from mixprec.compare.drill import FAULTS, Place
from mixprec.compare.drill._largest_matrix import largest_matrix
from mixprec.specs import LayerPrecision, Phase, Recipe, Rule


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


def test_the_matrix_that_is_struck_is_one_that_every_step_uses():
    session = _session()
    assert largest_matrix(session.model) is session.model[0].weight
    rows = nn.Sequential(nn.Embedding(1000, 4), nn.Linear(4, 8))
    assert largest_matrix(rows) is rows[1].weight
    tied = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    tied[1].weight = tied[0].weight
    assert largest_matrix(tied) is tied[1].weight
    assert largest_matrix(only := nn.Embedding(10, 4)) is only.weight


def test_a_bit_flips_in_a_weight_that_is_not_contiguous():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3)).to(memory_format=torch.channels_last)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    before = copy.deepcopy(session.model.state_dict())
    FAULTS["bit-flip"](at=0).before_step(session, 0)
    assert _changed(session, before) == {"0.weight": 1, "0.bias": 0}


def test_an_outlier_reaches_the_master_of_a_16_bit_weight():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(torch.bfloat16)
    session, fault = prepare(model, torch.optim.SGD(model.parameters(), lr=1e-6), "bf16"), FAULTS["outlier"](at=0)
    before = session.full_weight("0.weight")
    for i in range(10):
        fault.before_step(session, i)
        session.step(model(torch.randn(8, 16).to(torch.bfloat16)).float().square().mean())
    ratio = (session.full_weight("0.weight") / before).mean(1)
    assert ratio.max().item() == pytest.approx(1.05**10, rel=0.05)


def test_in_a_short_run_the_outlier_stops_before_the_end():
    assert FAULTS["outlier"].planted(Place(at=40, seed=0, total_steps=100)).steps == 40
    assert FAULTS["outlier"].planted(Place(at=400, seed=0, total_steps=1000)).steps == 80


@pytest.mark.parametrize(
    ("name", "optimizer", "batch", "reason"),
    [
        ("inf-moment", torch.optim.SGD, None, "the optimizer (SGD) keeps no moments"),
        ("inf-moment", torch.optim.AdamW, None, ""),
        ("poisoned-batches", torch.optim.SGD, ["a", torch.ones(2, dtype=torch.bool)], "no tensor of numbers"),
        ("poisoned-batches", torch.optim.SGD, {"x": torch.ones(2)}, ""),
        ("bit-flip", torch.optim.SGD, None, ""),
    ],
)
def test_a_fault_says_why_it_cannot_be_planted(name, optimizer, batch, reason):
    session = _session(optimizer=optimizer)
    _step(session)
    told = FAULTS[name](at=1).refusal(session, batch)
    assert told.startswith(reason)
    assert bool(told) == bool(reason)


def test_a_fault_of_the_precision_keeps_the_phases_of_the_recipe():
    wide = LayerPrecision.uniform("bf16")
    own = replace(
        recipe("mxfp8"), phases=(Phase(from_step=3, rules=()), Phase(last=0.2, rules=(Rule(precision=wide),)))
    )
    planted = FAULTS["fp4-site"].planted(Place(at=5, seed=0, total_steps=100, site="0")).recipe(own)
    assert [phase.from_step for phase in planted.phases] == [3, 5, 80]
    assert [len(phase.rules) for phase in planted.phases] == [0, 1, 2]
    at_once = FAULTS["fp4-site"].planted(Place(at=3, seed=0, total_steps=100, site="0")).recipe(own)
    assert [phase.from_step for phase in at_once.phases] == [3, 80]


def test_a_phase_that_waits_for_a_signal_leaves_no_place_for_a_fault_of_the_precision():
    own = replace(recipe("mxfp8"), phases=(Phase(when="decay", rules=()),))
    with pytest.raises(ValueError, match="fault fp4-site: a phase of recipe mxfp8 begins at the decay signal"):
        FAULTS["fp4-site"](at=5, site="0", total_steps=100).recipe(own)


def test_a_recipe_whose_scales_are_delayed_anyway_is_held_from_the_fault_on():
    own = Recipe(name="delayed", rules=(Rule(precision=LayerPrecision.of(input="e4m3[tensor] delayed")),))
    fault = FAULTS["frozen-scale"].planted(Place(at=3, seed=0, total_steps=100, site="0"))
    session = _session(fault.recipe(own))
    for i in range(3):
        fault.before_step(session, i)
        _step(session, i)
    assert fault._frozen == {}
    fault.before_step(session, 3)
    assert len(fault._frozen) == 1
