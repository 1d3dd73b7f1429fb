"""Replays of accumulated, checkpointed, autocast and compiled passes; what they leave alone, what they cannot tell."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import mixprec
from mixprec.monitor import Locator, Monitoring, StepRecording
from mixprec.specs import LossScale

from .trials import assert_untouched, facts_of, state_of


class Overflow(nn.Module):
    """Overflows where its input is above 10."""

    def forward(self, x):
        return torch.where(x > 10.0, x * 1e30 * 1e30, x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.over = Overflow()

    def forward(self, x):
        return self.over(self.drop(self.fc(x)))


class Net(nn.Module):
    def __init__(self, how="plain"):
        super().__init__()
        self.first, self.block, self.norm = nn.Linear(4, 4), Block(), nn.BatchNorm1d(4)
        self.how = how

    def forward(self, x):
        x = self.first(x)
        x = self.block(x) if self.how == "plain" else checkpoint(self.block, x, use_reentrant=self.how == "reentrant")
        return self.norm(x)


def bad_step(model, locator, batches=3, bad=1):
    for i in range(batches):
        model(torch.randn(8, 4) * (1e4 if i == bad else 1.0) / 1e2).sum().square().backward()
    return facts_of(model, 1.0)


@pytest.mark.parametrize("how", ["plain", "reentrant", "not reentrant"])
@pytest.mark.parametrize("recipe", [None, "bf16"])
def test_accumulated_and_checkpointed_passes(how, recipe):
    torch.manual_seed(0)
    model = Net(how)
    conversion = None if recipe is None else mixprec.convert(model, recipe)
    locator = Locator(model, conversion)
    facts = bad_step(model, locator)
    assert not facts.is_finite
    assert len(locator.recording.passes) == 3
    before = state_of(model)
    (finding,) = locator.skipped(facts)
    assert_untouched(before, state_of(model))
    assert finding.site.partition(" ")[0] == "block.over"
    assert finding.evidence["direction"] == "forward"
    assert not locator.recording.passes


def test_an_argument_that_was_changed_in_place_is_not_reproduced():
    model = Net()
    locator = Locator(model)
    x = torch.randn(8, 4)
    x[0] = torch.nan
    model(x).sum().backward()
    x.zero_()
    fault = locator.locate(step=5)
    assert (fault.site, fault.cause.name) == ("", "not reproduced")
    assert "changed in place" in fault.finding().message


def test_a_fault_that_does_not_come_again_has_no_site():
    class Flaky(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * (torch.inf if self.calls == 1 else 1.0)

    model = nn.Sequential(nn.Linear(4, 4), Flaky())
    locator = Locator(model)
    model(torch.ones(2, 4)).sum().backward()
    fault = locator.locate(step=0)
    assert (fault.site, fault.cause.name) == ("", "not reproduced")
    assert "all gradients are finite" in fault.detail
    assert fault.finding().severity == "warning"


def test_a_replay_that_raises_tells_so_and_leaves_no_trace():
    class Once(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 1:
                raise RuntimeError("used up")
            return x * torch.nan

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Once())
    locator = Locator(model)
    model(torch.randn(3, 4)).sum().backward()
    before = state_of(model)
    fault = locator.locate(step=0)
    assert_untouched(before, state_of(model))
    assert "RuntimeError: used up" in fault.detail


def test_dropout_is_replayed_with_its_own_random_bits():
    class Inverse(nn.Module):
        def forward(self, x):
            return 1.0 / x

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), Inverse())
    locator = Locator(model)
    model(torch.ones(2, 4)).sum().backward()
    torch.rand(100)
    fault = locator.locate(step=0)
    assert (fault.site, fault.cause.name) == ("2", "log or division of a zero")


def test_autocast_with_a_grad_scaler():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    monitor = mixprec.monitor(model, optimizer, Monitoring(every=0, alarms=False), scaler=scaler)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.ones(2, 4))
        loss = out.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    found = [f for f in monitor.findings if f.name == "loss scale too high"]
    monitor.remove()
    assert found
    assert found[0].severity == "note"


def test_a_static_scale_that_is_too_high_is_a_fault():
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=2.0**40)
    session.step(model(torch.ones(2, 4)).square().mean())
    (found,) = session.findings
    assert (found.severity, found.name) == ("fault", "loss scale too high")
    assert "give a smaller loss scale" in str(found)
    session.restore()


def test_the_reason_of_a_skipped_step_names_the_site():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    scale = LossScale(kind="dynamic", initial=2.0**40)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=scale)
    result = session.step(model(torch.ones(2, 4)).square().mean())
    assert "inf in 2 (grad_output), fp16 limit 65504; loss scale 2^40 -> 2^39" in result.reason
    assert any("nothing is wrong" in event.message for event in result.events)
    session.restore()


def test_a_row_of_ordinary_overflows_is_replayed_once_until_it_is_long():
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    scale = LossScale(kind="dynamic", initial=2.0**40)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=scale)
    told = []
    for _ in range(7):
        told.append(len(session.findings))
        session.step(model(torch.ones(2, 4)).square().mean())
    assert session.skipped == 7
    assert len(session.findings) == 1
    session.restore()


def test_a_converted_model_draws_the_same_random_bits_after_a_replay():
    def run(locate):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        session = mixprec.prepare(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            "mxfp4-sr" if "mxfp4-sr" in _recipes() else "mxfp4",
            monitor=Monitoring(every=0, alarms=False, locate=locate),
        )
        for i in range(4):
            session.step(model(torch.randn(8, 32)).mean() * (torch.inf if i == 1 else 1.0))
        values = [p.detach().clone() for p in model.parameters()]
        skipped = session.skipped
        session.restore()
        return values, skipped

    (with_, skipped), (without, _) = run(True), run(False)
    assert skipped == 1
    assert all(map(torch.equal, with_, without))


def _recipes():
    from mixprec.specs import recipe_names

    return recipe_names()


def test_a_compiled_model_is_told_or_replayed_eagerly():
    model = Net()
    compiled = torch.compile(model, backend="eager")
    locator = Locator(model)
    x = torch.full((8, 4), torch.nan)
    compiled(x).sum().backward()
    fault = locator.locate(step=0)
    assert fault.site in ("", "<input>")
    if not fault.site:
        assert "compiled" in fault.detail


def test_recording_costs_little():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])
    recording = StepRecording(model)
    x = torch.randn(4, 8)
    begun = time.perf_counter()
    for _ in range(200):
        recording._begin(model, (x,), {})
        recording._end(model, (x,), x)
        recording.forget()
    assert (time.perf_counter() - begun) / 200 < 2e-3
    recording.close()
    assert not model._forward_hooks
