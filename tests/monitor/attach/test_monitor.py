"""A loop that is somebody else's is watched, and nothing in it changes."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import mixprec
import mixprec.monitor
from mixprec.monitor import Monitoring
from mixprec.monitor.doctor import diagnose
from mixprec.nn import convert
from mixprec.records import (
    EventRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    find_dumps,
    read_dump,
    read_records,
)

EVERY = Monitoring(every=1)


def build(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 1)).to(dtype)


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, **options})


def loss_of(model):
    torch.manual_seed(1)
    return model(torch.randn(32, 8).to(next(model.parameters()).dtype)).square().mean()


def hooks_of(model):
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_forward_hooks_with_kwargs")
    return [len(getattr(module, name)) for module in model.modules() for name in names]


def train(model, optimizer, steps=3, show=lambda loss: loss):
    for _ in range(steps):
        optimizer.zero_grad()
        show(loss_of(model)).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def test_nothing_changes_and_nothing_stays():
    plain = build()
    expected = train(plain, sgd(plain))
    model = build()
    optimizer, before = sgd(model), hooks_of(model)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        assert hooks_of(model) != before
        found = train(model, optimizer, show=monitor.loss)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert hooks_of(model) == before
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    monitor.remove()
    assert (monitor.applied, monitor.skipped, monitor.findings) == (3, 0, ())


def test_the_folder_holds_steps_statistics_and_updates(tmp_path):
    model = build()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, Monitoring(every=2, what_if=("fp16",)), run=tmp_path, seed=4) as monitor:
        losses = []
        train(model, optimizer, show=lambda loss: losses.append(loss.item()) or monitor.loss(loss))
        assert "3 steps applied, 0 skipped" in monitor.report()
    records = read_records(tmp_path / "records.jsonl")
    steps = [r for r in records if isinstance(r, StepRecord)]
    assert [(r.step, r.applied, r.recipe, r.seed) for r in steps] == [(i, True, "as it is", 4) for i in range(3)]
    assert [r.loss for r in steps] == losses
    sampled = [r for r in records if isinstance(r, StatisticsRecord)]
    assert {r.step for r in sampled} == {0, 2}
    assert {(r.site, r.role) for r in sampled} >= {
        (s, r) for s in "012" for r in ("input", "output", "weight", "grad_output")
    }
    assert {(r.cast, r.in_use) for r in sampled} == {("fp32", True), ("fp16", False)}
    updates = [r for r in records if isinstance(r, UpdateRecord) and r.step == 2]
    assert [r.site for r in updates] == [name for name, _ in model.named_parameters()]


def test_an_update_is_told_as_it_was():
    model = build()
    optimizer, seen = sgd(model, momentum=0.9), {}
    optimizer.register_step_pre_hook(lambda *_: seen.update(before=[p.detach().double() for p in model.parameters()]))
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        train(model, optimizer)
        updates = monitor.updates()
    for update, before, p in zip(updates, seen["before"], model.parameters(), strict=True):
        moved = p.detach().double() - before
        assert update.weight_norm == pytest.approx(before.norm().item(), rel=1e-6)
        assert update.gradient_norm == pytest.approx(p.grad.double().norm().item(), rel=1e-6)
        assert update.update_norm == pytest.approx(moved.norm().item(), rel=1e-6)
        assert update.ratio == pytest.approx(
            moved.norm().item() / before.norm().item() if before.norm() else 0, rel=1e-6
        )
        has_gradient = p.grad != 0
        assert update.lost == (has_gradient & (moved == 0)).sum().item() / max(has_gradient.sum().item(), 1)


def test_weights_that_cannot_move_are_told_within_20_steps():
    """Case H3: bf16 ones under Adam with a gradient of 0.1 stay exactly 1.0."""
    model = nn.LayerNorm(4, bias=False).to(torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        for _ in range(20):
            model.weight.grad = torch.full((4,), 0.1, dtype=torch.bfloat16)
            optimizer.step()
        assert model.weight.tolist() == [1.0] * 4
        (update,) = monitor.updates()
        assert (update.lost, update.update_norm) == (1.0, 0.0)
    (found,) = [f for f in monitor.findings if f.name == "update too small"]
    assert found.site == "weight"
    assert "0 of 4 elements of weight moved in 20 steps" in found.message
    assert "masters" in found.remedy
    assert "lost updates" in {f.name for f in monitor.findings} or len(monitor.findings) > 1


def test_a_learning_rate_of_zero_loses_nothing():
    model = build(torch.bfloat16)
    optimizer = sgd(model, lr=0.0)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        train(model, optimizer, steps=25)
        assert monitor.updates() == ()
    assert monitor.findings == ()


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_tells_its_skipped_steps(tmp_path, fused):
    model = build()
    optimizer = sgd(model, fused=fused)
    scaler, kind = torch.amp.GradScaler("cpu", init_scale=8.0), torch.amp.GradScaler
    norms = []
    with mixprec.monitor(model, optimizer, EVERY, run=tmp_path, scaler=scaler) as monitor:
        assert isinstance(scaler, kind)
        assert type(scaler).__name__ == "GradScaler"
        for factor in (1.0, math.inf, 1.0):
            optimizer.zero_grad()
            loss = monitor.loss(loss_of(model) * factor)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
    assert type(scaler) is kind
    assert (monitor.applied, monitor.skipped, scaler.get_scale()) == (2, 1, 4.0)
    records = read_records(tmp_path / "records.jsonl")
    steps = [r for r in records if isinstance(r, StepRecord)]
    assert [(r.step, r.applied, r.loss_scale) for r in steps] == [(0, True, 8.0), (1, False, 8.0), (1, True, 4.0)]
    assert steps[0].grad_norm == pytest.approx(norms[0], rel=1e-5)  # a fused optimizer unscales inside of its step
    (event,) = [r for r in records if isinstance(r, EventRecord)]
    assert (event.name, event.step) == ("skipped", 1)
    gradients = [r for r in records if isinstance(r, StatisticsRecord) and r.role == "gradient" and r.step == 1]
    assert any(r.nonfinite for r in gradients)


def test_updates_with_infinities_are_told_once_and_were_applied(tmp_path):
    """Nobody skips them: the records say so, no alarm counts skipped steps, and the first is located."""
    model = build()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, EVERY, run=tmp_path) as monitor:
        train(model, optimizer, steps=2, show=monitor.loss)
        train(model, optimizer, steps=12, show=lambda loss: monitor.loss(loss * math.inf))
    (found,) = [f for f in monitor.findings if f.name == "non-finite update"]
    assert (found.severity, found.step) == ("fault", 2)
    assert "GradScaler" in found.remedy
    assert (monitor.applied, monitor.skipped) == (14, 0)
    assert "14 steps applied, 0 skipped" in monitor.report()
    steps = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, StepRecord)]
    assert [(s.step, s.applied) for s in steps] == [(i, True) for i in range(14)]
    assert not [f for f in monitor.findings if "skipped" in f.name]
    located = [f for f in monitor.findings if f.evidence.get("reason")]
    assert (located[0].step, located[0].site) == (2, "<loss> (grad_output)")
    dump = read_dump(find_dumps(tmp_path)[0])
    assert [(s.step, s.outcome) for s in dump.steps] == [(0, "applied"), (1, "applied"), (2, "applied")]
    diagnosis = diagnose(tmp_path)
    assert diagnosis.about[0].startswith("recipe as it is, seed 0: 14 applied steps")
    assert "skipped" not in diagnosis.about[0]
    assert not [d for d in diagnosis.findings if "skipped" in d.finding.name]


def test_a_step_with_a_closure_has_a_record(tmp_path):
    model = build()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    with mixprec.monitor(model, optimizer, run=tmp_path) as monitor:

        def closure():
            optimizer.zero_grad()
            loss = monitor.loss(loss_of(model))
            losses.append(loss.item())
            loss.backward()
            return loss

        last = []
        for _ in range(2):
            losses = []
            optimizer.step(closure)
            last.append(losses[-1])
        assert monitor.applied == 2
    steps = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, StepRecord)]
    assert [(s.step, s.loss, s.grad_norm) for s in steps] == [(0, last[0], None), (1, last[1], None)]
    with mixprec.monitor(model, optimizer, run=tmp_path) as again:
        again.load_state_dict(monitor.state_dict())
        optimizer.step(lambda: loss_of(model))
    resumed = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, EventRecord)]
    assert [r.message for r in resumed] == ["resumed from step 2 of 2 recorded ones"]


def test_a_state_that_is_ahead_of_its_records_is_told_as_that(tmp_path):
    model = build()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, run=tmp_path) as monitor:
        train(model, optimizer)
    state = {**monitor.state_dict(), "applied": 5}
    with mixprec.monitor(model, optimizer, run=tmp_path) as again:
        again.load_state_dict(state)
        train(model, optimizer, steps=1)
    (event,) = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, EventRecord)]
    assert event.message == ("resumed from step 5; the records end after 3 steps, and what came between is not in them")


class Bare(nn.Module):
    """A model whose only weight is its own, under another name."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(8, 1))

    def forward(self, x):
        return x @ self.matrix


class Around(nn.Module):
    """A model that uses a layer's weight without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return nn.functional.linear(x, self.layer.weight)


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (Bare, EVERY, "no layer of the model is looked at"),
        (Around, EVERY, "of 1 layer that are looked at none was called"),
        (lambda: nn.Linear(8, 1), Monitoring(every=1, sites=("nothing",)), "no layer of the model is looked at"),
    ],
)
def test_a_model_of_which_nothing_is_seen_is_not_called_compiled(kind, options, text):
    model = kind()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, options) as monitor:
        train(model, optimizer)
    (found,) = monitor.findings
    assert (found.name, found.severity) == ("not watched", "note")
    assert found.message.startswith(text)
    assert "torch.compile" not in found.message


def test_a_loss_that_the_model_returns_is_the_loss(tmp_path):
    class Returns(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x):
            return SimpleNamespace(loss=self.layer(x).square().mean())

    model = Returns()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, run=tmp_path):
        losses = [model(torch.full((4, 2), float(k))).loss for k in (1, 2)]
        (sum(losses) / 2).backward()
        optimizer.step()
    (step,) = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, StepRecord)]
    assert step.loss == pytest.approx(sum(loss.item() for loss in losses) / 2)


def test_an_optimizer_in_accelerates_wrapper_is_unwrapped():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self):
            self.optimizer.step()

    model = build()
    optimizer = Wrapper(sgd(model))
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        loss_of(model).backward()
        optimizer.step()
    assert monitor.applied == 1


def test_without_an_optimizer_passes_are_counted():
    model = build()
    with mixprec.monitor(model, options=EVERY) as monitor:
        for _ in range(3):
            loss_of(model).backward()
        with torch.no_grad():
            loss_of(model)
        assert {r.role for r in monitor.statistics()} == {"input", "output", "weight", "grad_output"}
    assert monitor.applied == 2


def test_a_converted_model_shows_its_casts():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    convert(model, "mxfp8")
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        found = {(r.site, r.role, r.cast) for r in monitor.statistics()}
    assert {
        ("0", "input", "mxfp8 rceil"),
        ("1", "grad_output", "mxfp8 rceil"),
        ("0.weight", "gradient", "fp32"),
    } <= found


def test_a_copy_of_a_watched_model_tells_nobody():
    model = build()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        twin = copy.deepcopy(model)
        twin(torch.full((4, 8), 1e6)).sum().backward()
        loss_of(model).backward()
        optimizer.step()
        assert max(r.amax for r in monitor.statistics() if (r.site, r.role) == ("0", "input")) < 1e3


def test_compiled_code_is_told_of():
    model = build()
    optimizer = sgd(model)
    compiled = torch.compile(model, backend="eager")
    with mixprec.monitor(compiled, optimizer, EVERY) as monitor:
        for _ in range(2):
            loss_of(compiled).backward()
            optimizer.step()
        assert {r.role for r in monitor.statistics()} == {"gradient"}
    (found,) = monitor.findings
    assert (found.name, found.severity) == ("not watched", "note")
    assert "force_eager" in found.remedy


def test_a_state_continues():
    model = build(torch.bfloat16)
    optimizer = sgd(model, lr=1e-6)
    with mixprec.monitor(model, optimizer, EVERY) as monitor:
        train(model, optimizer, steps=12)
    with mixprec.monitor(model, optimizer, EVERY) as again:
        again.load_state_dict(monitor.state_dict())
        train(model, optimizer, steps=8)
        with pytest.raises(ValueError, match="load before the first"):
            again.load_state_dict(monitor.state_dict())
    assert again.applied == 20
    assert "update too small" in {f.name for f in again.findings}


def test_a_folder_goes_on_and_has_one_monitor(tmp_path):
    model = build()
    optimizer = sgd(model)
    with mixprec.monitor(model, optimizer, run=tmp_path):
        train(model, optimizer)
        with pytest.raises(ValueError, match="has a monitor already"):
            mixprec.monitor(model, optimizer, run=tmp_path)
    with mixprec.monitor(model, optimizer, run=tmp_path):
        train(model, optimizer, steps=1)
    records = read_records(tmp_path / "records.jsonl")
    assert [r.message for r in records if isinstance(r, EventRecord)] == ["resumed from step 0 of 3 recorded ones"]
    with pytest.raises(ValueError, match="holds steps of as it is, these are of mxfp8"):
        mixprec.monitor(mixprec_model(), run=tmp_path)


def mixprec_model():
    model = nn.Sequential(nn.Linear(64, 64))
    convert(model, "mxfp8")
    return model


def test_a_sessions_folder_is_refused(tmp_path):
    model = build()
    session = mixprec.prepare(model, sgd(model), "fp32", run=tmp_path)
    session.restore()
    with pytest.raises(ValueError, match="is a session's, which watches its run itself"):
        mixprec.monitor(model, sgd(model), run=tmp_path)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda m, o: mixprec.monitor(o, m), TypeError, "model is a SGD, expected a torch.nn.Module"),
        (lambda m, o: mixprec.monitor(m, 3), TypeError, "optimizer is a int"),
        (lambda m, o: mixprec.monitor(m, o, "runs/a"), TypeError, "options is a str"),
        (lambda m, o: mixprec.monitor(build(), o), ValueError, "the SGD has no parameter of the model"),
        (lambda m, o: mixprec.monitor(m, o, scaler=3), TypeError, "scaler is a int"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, text):
    model = build()
    before = hooks_of(model)
    with pytest.raises(error, match=text):
        make(model, sgd(model))
    assert hooks_of(model) == before


def test_an_exception_ends_it():
    model = build()
    before = hooks_of(model)
    with pytest.raises(ZeroDivisionError), mixprec.monitor(model, sgd(model)):
        _ = 1 / 0
    assert hooks_of(model) == before
