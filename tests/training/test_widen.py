"""session.widen: what changes, what stays, what a resumed run knows; and phases that wait for a signal."""

import copy
import re

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mixprec import Recipe, prepare
from mixprec.specs import LayerPrecision, Phase, Rule, recipe


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(x)))


def _session(asked, seed=0, run=None, **options):
    torch.manual_seed(seed)
    model = nn.Sequential(Block(), Block(), nn.Linear(32, 4))
    return prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), asked, seed=7, run=run, **options)


def _step(session, i):
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(i))
    return session.step(session.model(x).square().mean())


def _casts(session):
    """The weight's cast of each linear layer that has one; functions that the blocks might call have sites too."""
    now = session._conversion.precisions()
    return {name: str(p.fprop_weight) for name, p in now.items() if ".fc" in name}


def test_one_site_is_wider_and_the_others_stay():
    session = _session("mxfp4")
    _step(session, 0)
    (event,) = session.widen("0.fc2 (weight)")
    assert (event.name, event.site, event.step) == ("widened", "0.fc2", 1)
    assert event.message == "0.fc2: fprop weight, dgrad weight mxfp4 -> mxfp8 rceil"
    assert session.events[-1] == event
    assert _step(session, 1).applied
    assert _casts(session) == {"0.fc1": "mxfp4", "0.fc2": "mxfp8 rceil", "1.fc1": "mxfp4", "1.fc2": "mxfp4"}
    audit = session.audit()
    assert audit.from_step == 1
    formats = {(row.site, row.gemm): row.format for row in audit.rows}
    assert formats["0.fc2", "fprop"] != formats["1.fc2", "fprop"]
    assert formats["0.fc2", "wgrad"] == formats["1.fc2", "wgrad"]


def test_step_by_step_to_the_compute_dtype_and_no_further():
    session = _session("mxfp4")
    messages = [session.widen(["1.fc1"])[0].message for _ in range(3)]
    assert [re.sub(r".* -> ", "", message) for message in messages] == ["mxfp8 rceil", "bf16", "fp32"]
    (event,) = session.widen("1.fc1")
    assert event.name == "not widened"
    assert "compute dtype fp32" in event.message
    assert "1.fc1" not in _casts(session)
    assert _step(session, 0).applied


def test_wider_equals_a_recipe_that_was_so_from_the_start():
    late = _session("mxfp4")
    late.widen("0.fc1", to="compute")
    own = recipe("mxfp4")
    first = (Rule(match="0.fc1", precision=LayerPrecision()), *own.rules)
    early = _session(Recipe(name="early", compute_dtype=own.compute_dtype, rules=first))
    for i in range(5):
        assert _step(late, i).grad_norm == _step(early, i).grad_norm


def test_a_resumed_run_is_as_wide(tmp_path):
    def run(session, steps):
        return [_step(session, i).grad_norm for i in range(session.applied, steps)]

    whole = _session("fp8-delayed", run=tmp_path / "whole")
    run(whole, 3)
    whole.widen("0.fc2 (input)", to="bf16")
    expected = run(whole, 8)

    first = _session("fp8-delayed", run=tmp_path / "run")
    run(first, 3)
    first.widen("0.fc2 (input)", to="bf16")
    run(first, 5)
    first.save(tmp_path / "saved")
    first.restore()
    second = _session("fp8-delayed", seed=1)
    assert second.resume(tmp_path / "saved").step == 5
    assert str(second._conversion.precisions()["0.fc2"].fprop_input) == "bf16"
    assert run(second, 8) == expected[2:]


def test_an_earlier_state_takes_it_back():
    session = _session("mxfp4")
    before = copy.deepcopy(session.state_dict())
    session.widen("0.fc1")
    session.load_state_dict(before)
    assert set(_casts(session).values()) == {"mxfp4"}


def test_it_holds_in_later_phases():
    own = recipe("mxfp4")
    later = Phase(from_step=2, rules=(Rule(precision=LayerPrecision.uniform("mxfp6")),))
    session = _session(Recipe(name="two", rules=own.rules, phases=(later,)))
    session.widen(["0.fc1", "0.fc2 (weight)"], to="fp8")
    for i in range(3):
        _step(session, i)
    casts = _casts(session)
    assert casts["0.fc1"] == casts["0.fc2"] == "mxfp8 rceil"
    assert casts["1.fc1"] == "mxfp6"


def test_what_is_no_site():
    session = _session("mxfp4")
    with pytest.raises(ValueError, match=r"widen: no site is named '0.fc9', expected one such as 0.fc"):
        session.widen(["0.fc1", "0.fc9"])
    assert set(_casts(session).values()) == {"mxfp4"}
    with pytest.raises(ValueError, match="width 'fp16'"):
        session.widen("0.fc1", to="fp16")


def test_a_model_that_is_one_layer_has_no_name():
    model = nn.Linear(32, 32)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "mxfp4")
    (event,) = session.widen("")
    assert event.message == "the model itself stays as it is: no rule can name it alone"


def test_a_16_bit_compute_dtype_is_as_wide_as_it_gets():
    (event,) = _session("bf16").widen("0.fc1")
    assert event.message == "0.fc1 stays as it is: it is in the compute dtype bf16, and nothing wider is in this recipe"


def test_a_phase_begins_with_the_decay_of_the_learning_rate():
    own = recipe("mxfp4")
    session = _session(Recipe(name="wsd", rules=own.rules, phases=(Phase(when="decay"),)))
    rates = [0.001, 0.01, 0.01, 0.01, 0.009, 0.008]
    casts = []
    for i, rate in enumerate(rates):
        session.optimizer.param_groups[0]["lr"] = rate
        _step(session, i)
        casts.append(len(_casts(session)))
    assert casts == [4, 4, 4, 4, 0, 0]
    (event,) = [event for event in session.events if event.name == "phase"]
    assert event.step == 5

    again = _session(Recipe(name="wsd", rules=own.rules, phases=(Phase(when="decay"),)), seed=1)
    again.load_state_dict(session.state_dict())
    assert not _casts(again)


def test_signal_phases_read_and_write():
    text = Recipe(name="x", phases=(Phase(when="noise"), Phase(last=0.1))).to_toml()
    assert 'when = "noise"' in text
    assert Recipe.from_toml(text).phases[0].when == "noise"
    with pytest.raises(ValueError, match="expected one of the three"):
        Phase(when="decay", last=0.5)
    with pytest.raises(ValueError, match="when 'later'"):
        Phase(when="later")
    assert Recipe(name="x", phases=(Phase(when="noise"),)).at(10**6).phases == ()


class Recomputed(Block):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("way", ["recomputed", "compiled"])
def test_recomputed_and_compiled_runs_widen_alike(way):
    def run(way):
        torch.manual_seed(0)
        block = Recomputed if way == "recomputed" else Block
        model = nn.Sequential(block(), block())
        session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), "nvfp4", seed=3)
        call = torch.compile(model, backend="aot_eager", fullgraph=True) if way == "compiled" else model
        norms = []
        for i in range(3):
            if i == 1:
                session.widen(["0.fc2 (weight)", "1.fc1"])
            x = torch.randn(16, 32, generator=torch.Generator().manual_seed(i))
            norms.append(session.step(call(x).square().mean()).grad_norm)
        return norms

    torch._dynamo.reset()
    assert run(way) == run("plain")
