"""session.shadow: the gap and the noise are those of a float64 or plain fp32 recomputation; nothing is changed."""

import copy
import math

import pytest
import torch
from torch import nn

from mixprec import Recipe, prepare
from mixprec.specs import LayerPrecision, Phase, Rule


def _model(dtype=torch.float32, dropout=0.2):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 64), nn.Linear(64, 4)
    )
    return model.to(dtype)


def _loss(model, x):
    return model(x).float().square().mean()


def _batch(dtype=torch.float32):
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(3)).to(dtype)


@pytest.mark.parametrize("asked", ["bf16", "fp16", "mxfp8", "nvfp4", "fp8-delayed"])
def test_it_equals_plain_fp32_and_changes_nothing(asked):
    model = _model()
    plain = copy.deepcopy(model)
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), asked, seed=5)
    x = _batch()
    torch.manual_seed(11)
    before, drawn = copy.deepcopy(session.state_dict()), torch.get_rng_state()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    shadow = session.shadow(_loss, x, backward=True)

    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    after = session.state_dict()
    assert torch.equal(after["random"], before["random"])
    assert all(torch.equal(h, before["histories"][name]) for name, h in after["histories"].items())

    torch.manual_seed(11)
    base = _loss(plain, x)
    base.backward()
    assert shadow.baseline == base.item()
    torch.manual_seed(11)
    loss = _loss(model, x)
    assert shadow.loss == loss.item()
    assert shadow.gap == shadow.loss - shadow.baseline
    session.backward(loss)
    pairs = [(p.grad.double(), q.grad.double()) for p, q in zip(model.parameters(), plain.parameters(), strict=True)]
    noise = sum(float((a - b).square().sum()) for a, b in pairs)
    signal = sum(float(b.square().sum()) for _, b in pairs)
    assert shadow.ratio == pytest.approx(math.sqrt(signal / noise), rel=1e-5)
    assert shadow.bytes == sum(t.nbytes for t in (*plain.parameters(), *plain.buffers()))


def test_fp32_has_no_gap():
    model = _model()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    shadow = session.shadow(_loss, _batch(), backward=True)
    assert (shadow.gap, shadow.ratio, shadow.drowns) == (0.0, math.inf, False)
    assert session.shadow(_loss, _batch()).ratio is None


def test_16_bit_weights_are_compared_by_their_full_values():
    model = _model(torch.bfloat16, dropout=0.0)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    x = _batch(torch.bfloat16)
    for _ in range(3):
        session.step(_loss(model, x))
    plain = _model(dropout=0.0)
    with torch.no_grad():
        for name, p in plain.named_parameters():
            p.copy_(session.full_weight(name))
    assert session.shadow(lambda m, b: _loss(m, b.to(next(m.parameters()).dtype)), x).baseline == pytest.approx(
        _loss(plain, x.float()).item(), abs=0
    )


def test_training_goes_on_as_without_it():
    def run(measures):
        torch.manual_seed(2)
        model = _model()
        session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), "nvfp4", seed=5)
        for _ in range(4):
            if measures:
                session.shadow(_loss, _batch(), backward=True)
            session.step(_loss(model, _batch()))
        return model.state_dict()

    with_it, without = run(True), run(False)
    assert all(torch.equal(value, without[name]) for name, value in with_it.items())


def test_gradients_that_drown_begin_a_phase():
    """Pairs of nearly equal samples with opposite signs: little is left of the gradient, but of its rounding all."""
    fine = (Rule(precision=LayerPrecision.uniform("mxfp8")),)
    noisy = Recipe(
        name="late", rules=(Rule(precision=LayerPrecision.uniform("mxfp4")),), phases=(Phase(when="noise", rules=fine),)
    )
    model = nn.Linear(64, 32, bias=False)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), noisy)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(3))
    signs = torch.ones(64, 1).index_fill_(0, torch.arange(32, 64), -1.0)

    def loss(m, distance):
        return (m(torch.cat([x, x * (1 + distance)])) * signs).mean()

    assert not session.shadow(loss, 1.0, backward=True).drowns
    assert session.shadow(loss, 0.01).ratio is None
    assert "phase" not in [event.name for event in session.events]
    assert session.shadow(loss, 0.01, backward=True).drowns
    (event,) = [event for event in session.events if event.name == "phase"]
    assert "later phase" in event.message
    (precision,) = session._conversion.precisions().values()
    assert str(precision.wgrad_input) == "mxfp8"


def test_a_loss_that_is_none():
    model = _model()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "mxfp8")
    with pytest.raises(TypeError, match="shadow: loss gave a float"):
        session.shadow(lambda m, x: 1.0, _batch())
    with pytest.raises(TypeError, match="loss"):
        session.shadow(lambda m, x: 1.0, _batch(), backward=True)
