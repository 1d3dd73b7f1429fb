from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import mixprec
from mixprec.monitor import Fault, Locator, NotReproduced, StepFacts, locate
from mixprec.specs import LossScale

from .models import JOBS, Block


def facts(model: nn.Module, scale: float = 1.0, losses: tuple[tuple[str, float], ...] = ()) -> StepFacts:
    parameters = dict(model.named_parameters())
    return StepFacts(
        step=3,
        losses=losses,
        grad_norm=float("nan"),
        norms={},
        is_finite=False,
        scale=1.0,
        loss_scales={"loss": scale},
        gradients={},
        parameters=parameters,
    )


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)
        self.seen: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(x)).sqrt()))


def test_everything_is_left_as_it_was():
    torch.manual_seed(0)
    model = Root()
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16", clip_norm=1.0)
    model.first.weight.grad = None
    loss = model(torch.randn(6, 4)).square().mean()
    session.backward(loss)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    versions = {name: value._version for name, value in model.state_dict(keep_vars=True).items()}
    drawn, python = torch.get_rng_state(), random.getstate()
    hooks = [len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules()]
    gradients = [p.grad for p in model.parameters()]
    copies = [None if g is None else g.clone() for g in gradients]
    locator = session._watching._locator
    found = locator.locate(step=0)
    assert (found.site, found.cause) == ("<model>", "root of a negative number")
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
    assert all(g is c or torch.equal(g.nan_to_num(), c.nan_to_num()) for g, c in zip(gradients, copies, strict=True))
    now = model.state_dict(keep_vars=True)
    assert all(torch.equal(now[name], value) for name, value in state.items())
    assert {name: value._version for name, value in now.items()} == versions
    assert torch.equal(torch.get_rng_state(), drawn)
    assert random.getstate() == python
    assert [len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules()] == hooks


def test_an_input_that_was_changed_in_place_is_not_guessed_about():
    model = nn.Linear(2, 1)
    locator, x = Locator(model), torch.ones(3, 2)
    (model(x) * float("nan")).sum().backward()
    x.zero_()
    (finding,) = locator.skipped(facts(model))
    assert (finding.name, finding.site) == ("not reproduced", "")
    assert "changed in place" in finding.message
    locator.close()


def test_a_fault_that_does_not_recur_is_not_guessed_about():
    model = nn.Linear(2, 1)
    locator = Locator(model)
    model(torch.ones(3, 2)).sum().backward()
    assert isinstance(locator.locate(step=0), NotReproduced)
    assert str(locator.locate(step=0)) == "not reproduced: the step was finite when it was run again"
    locator.close()


def test_what_the_random_state_made_comes_again():
    class Chance(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return (self.fc(x) * (torch.rand(()) > 0.5)).reciprocal()

    for seed in range(6):
        torch.manual_seed(seed)
        model = Chance()
        locator = Locator(model)
        out = model(torch.ones(2, 4))
        out.sum().backward()
        found = locator.locate(step=0)
        assert isinstance(found, Fault) == (not bool(out.isfinite().all()))
        if isinstance(found, Fault):
            assert (found.site, found.cause, found.operation) == ("<model>", "division by zero", "reciprocal")
        locator.close()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "mxfp8"])
def test_under_activation_checkpointing(reentrant: bool, recipe: str):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inp = nn.Linear(32, 32)
            self.blocks = nn.ModuleList(Block(32) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            x = self.inp(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return x

    torch.manual_seed(0)
    model = Model()
    model.blocks[1].fc1.register_forward_hook(lambda m, a, out: out * 3e38 * 3e38)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    result = session.step(model(torch.randn(2, 8, 32)).square().mean())
    assert not result.applied
    assert (session.fault.site, session.fault.cause) == ("blocks.1.fc1", "activation overflow")
    assert "blocks.1.fc1" in result.reason


def test_the_bad_micro_batch_of_several_is_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    for i in range(3):
        x = torch.ones(2, 4)
        x[0, 1] = float("nan") if i == 2 else 1.0
        session.backward(model(x).mean())
    assert not session.step().applied
    assert (session.fault.site, session.fault.micro_batch, session.fault.kind) == ("<input>", 2, "NaN")


def test_a_nan_that_a_where_throws_away_is_not_blamed():
    class Safe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.safe, self.bad = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            ratio = torch.where(x.detach() > 0, 1 / x.detach(), 0.0)  # inf and thrown away where x is 0
            return self.bad(self.safe(x) + ratio).relu().mul(0).log()

    model, x = Safe(), torch.ones(2, 4)
    x[0, 0] = 0.0
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    session.step(model(x).mean())
    assert (session.fault.operation, session.fault.cause) == ("log", "log of zero")


def test_the_reason_names_the_layer_and_the_limit():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = mixprec.prepare(model, optimizer, "fp16", loss_scale=LossScale(kind="dynamic", initial=2.0**20))
    result = session.step(model(torch.ones(2, 4)).sum())
    assert result.reason.startswith("skipped: inf in ")
    assert ", fp16 limit 65504; loss scale 1048576 -> 524288" in result.reason
    assert session.fault.is_ordinary
    assert [finding.severity for finding in session.findings] == ["note"]


def test_a_streak_of_ordinary_overflows_is_replayed_and_told_once():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = mixprec.prepare(model, optimizer, "fp16", loss_scale=LossScale(kind="dynamic", initial=2.0**24))
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    results = [session.step(model(torch.ones(2, 4)).sum()) for _ in range(5)]
    assert [r.applied for r in results][:4] == [False] * 4
    assert len(calls) == 5 + 2  # two replays: as it was, and at loss scale 1
    assert len(session.findings) == 1


@pytest.mark.parametrize(("scale", "cause"), [(2.0**30, "loss scale too high"), (1.0, "gradient overflow")])
def test_a_static_scale_that_is_too_high_is_a_fault(scale: float, cause: str):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=scale)
    session.step(model(torch.ones(2, 4)).sum() * (1.0 if scale > 1.0 else 1e6))
    assert (session.fault.cause, session.fault.is_ordinary) == (cause, False)


def test_a_plain_loop_with_autocast_and_a_scaler():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    locator = Locator(model)
    model[0].weight.data.mul_(1e5)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(torch.full((2, 4), 100.0))
    out.float().sum().backward()
    found = locator.locate(step=0)
    assert (found.site, found.cause, found.format) == ("0", "activation overflow", "fp16")
    locator.close()


def test_a_loss_outside_of_the_model():
    model = nn.Linear(2, 2)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    result = session.step((model(torch.zeros(1, 2)) * 0).log().sum())
    assert not result.applied
    assert (session.fault.site, session.fault.cause) == ("<loss>", "loss")
    found = session.locate(lambda: (model(torch.zeros(1, 2)) * 0).log().sum())
    assert (found.site, found.operation, found.cause) == ("<loss>", "log", "log of zero")
    assert session.locate(lambda: model(torch.ones(1, 2)).sum()) is None


def test_locate_leaves_a_healthy_run_bit_equal():
    def run(looks: bool) -> list[Tensor]:
        torch.manual_seed(0)
        job = JOBS["gpt"]()
        session = mixprec.prepare(job.model, torch.optim.AdamW(job.model.parameters(), lr=1e-2), "nvfp4", clip_norm=1.0)
        for i in range(3):
            (tokens,), targets = job.batch(i)
            if looks:
                assert session.locate(lambda t=tokens, y=targets: job.loss(job.model(t), y)) is None
            session.step(job.loss(job.model(tokens), targets))
        return [p.detach().clone() for p in job.model.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(run(False), run(True), strict=True))


def test_a_compiled_model_says_what_to_do():
    model = nn.Linear(2, 1)
    locator = Locator(model)
    found = locator.locate(step=0)
    assert str(found) == "not reproduced: no forward pass of the model was recorded"
    locator.close()


def test_a_flipped_bit_needs_no_replay_and_one_weight_of_many_is_named():
    model = JOBS["gpt"]().model
    model.blocks[1].fc2.weight.data[3, 5] = 1e30
    found = locate(model, lambda: torch.zeros((), requires_grad=True))
    assert (found.site, found.cause) == ("blocks.1.fc2.weight", "flipped bit")
    model.blocks[1].fc2.weight.data.fill_(float("nan"))
    found = locate(model, lambda: torch.zeros((), requires_grad=True))
    assert (found.site, found.cause) == ("blocks.1.fc2.weight", "diverged weights")


def test_a_loop_that_is_only_watched():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    model[0].register_forward_hook(lambda m, a, out: (out * 0).log() + out)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=4.0)
    with mixprec.monitor(model, optimizer, scaler=scaler) as monitor:
        scaler.scale(monitor.loss(model(torch.ones(2, 4)).mean())).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (monitor.skipped, monitor.applied) == (1, 0)
        assert (monitor.fault.site, monitor.fault.cause) == ("0", "log of zero")
        assert any(finding.name == "log of zero" for finding in monitor.findings)
