"""Several optimizers in somebody else's loop: a step is one round of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import mixprec
import mixprec.monitor
from mixprec.monitor import Monitoring
from mixprec.records import (
    EventRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    find_dumps,
    read_dump,
    read_records,
)

softplus = nn.functional.softplus


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def gan():
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "g": nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)),
            "d": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        }
    )


def sgd(part, lr=0.01):
    return torch.optim.SGD(part.parameters(), lr=lr)


def of(run, kind):
    return [record for record in read_records(run / "records.jsonl") if isinstance(record, kind)]


def critic_step(model, optimizer, monitor):
    optimizer.zero_grad()
    with torch.no_grad():
        fake = model["g"](torch.randn(8, 3))
    loss = softplus(-model["d"](torch.randn(8, 4))).mean() + softplus(model["d"](fake)).mean()
    monitor.loss(loss, "d").backward()
    optimizer.step()
    return loss.item()


def generator_step(model, optimizer, monitor, factor=1.0):
    optimizer.zero_grad()
    loss = softplus(-model["d"](model["g"](torch.randn(8, 3)))).mean() * factor
    monitor.loss(loss, "g").backward()
    optimizer.step()
    return loss.item()


def test_optimizers_that_share_a_backward_pass_take_one_step(tmp_path):
    model, losses, norms = mlp(), [], []
    first, second = sgd(model[0]), sgd(model[2])
    with mixprec.monitor(model, [first, second], Monitoring(every=2), run=tmp_path) as monitor:
        for i in range(4):
            model.zero_grad()
            loss = monitor.loss(model(torch.randn(16, 4)).square().mean())
            loss.backward()
            losses.append(loss.item())
            norms.append(math.hypot(*(p.grad.double().norm().item() for p in model.parameters())))
            first.step()
            assert monitor.applied == i + 1
            second.step()
        assert (monitor.applied, monitor.skipped) == (4, 0)
    steps = of(tmp_path, StepRecord)
    assert [(s.step, s.loss, s.applied) for s in steps] == [(i, losses[i], True) for i in range(4)]
    assert [s.grad_norm for s in steps] == pytest.approx(norms, rel=1e-6)
    names = [name for name, _ in model.named_parameters()]
    assert [(u.step, u.site) for u in of(tmp_path, UpdateRecord)] == [(i, name) for i in (0, 2) for name in names]


@pytest.mark.parametrize("are_named", [True, False])
def test_a_record_tells_the_losses_of_a_gan_apart(tmp_path, are_named):
    model = nn.ModuleDict({"d": nn.Linear(4, 1), "g": nn.Linear(3, 4)})
    optimizers = {name: sgd(model[name]) for name in "dg"}
    told = []
    with mixprec.monitor(model, optimizers, run=tmp_path) as monitor:
        for _ in range(3):
            for name, x in (("d", torch.randn(8, 4)), ("g", torch.randn(8, 3))):
                optimizers[name].zero_grad()
                loss = model[name](x).square().mean()
                (monitor.loss(loss, name) if are_named else monitor.loss(loss)).backward()
                optimizers[name].step()
                told.append((name, loss.item()))
    steps = of(tmp_path, StepRecord)
    assert [dict(step.losses) for step in steps] == [dict(told[i : i + 2]) for i in (0, 2, 4)]
    assert [step.loss for step in steps] == pytest.approx([told[i][1] + told[i + 1][1] for i in (0, 2, 4)])


@pytest.mark.parametrize("every", [1, 2, 3])
def test_both_optimizers_of_a_gan_are_sampled_in_the_same_steps(tmp_path, every):
    model, losses = gan(), []
    d, g = sgd(model["d"]), sgd(model["g"])
    with mixprec.monitor(model, {"g": g, "d": d}, Monitoring(every=every), run=tmp_path) as monitor:
        for _ in range(5):
            losses.append(critic_step(model, d, monitor) + generator_step(model, g, monitor))
    assert monitor.applied == 5
    assert [s.loss for s in of(tmp_path, StepRecord)] == pytest.approx(losses)
    wanted = set(range(0, 5, every))
    for kind, role in ((UpdateRecord, None), (StatisticsRecord, "gradient"), (StatisticsRecord, "grad_output")):
        found = [r for r in of(tmp_path, kind) if role is None or r.role == role]
        for part in "dg":
            assert {r.step for r in found if r.site.startswith(part)} == wanted, (kind, role, part)


def test_an_optimizer_that_steps_seldom_is_sampled_by_its_own_steps(tmp_path):
    """Five steps of the critic for one of the generator's: a step for each of the critic's, the fifth with both."""
    model = gan()
    d, g = sgd(model["d"]), sgd(model["g"])
    with mixprec.monitor(model, {"g": g, "d": d}, Monitoring(every=2), run=tmp_path) as monitor:
        for _ in range(4):
            for _ in range(5):
                critic_step(model, d, monitor)
            generator_step(model, g, monitor)
    assert monitor.applied == 20
    updates = of(tmp_path, UpdateRecord)
    assert {u.step for u in updates if u.site.startswith("g")} == {4, 14}
    assert {u.step for u in updates if u.site.startswith("d")} == set(range(0, 20, 2))
    backward = [r for r in of(tmp_path, StatisticsRecord) if r.role == "grad_output"]
    assert {r.step for r in backward if r.site.startswith("g")} == {4, 14}


def test_each_dump_entry_of_a_gan_has_its_own_loss_and_batch(tmp_path):
    model = gan()
    d, g = sgd(model["d"]), sgd(model["g"])
    with mixprec.monitor(model, {"g": g, "d": d}, run=tmp_path) as monitor:
        for _ in range(2):
            critic_step(model, d, monitor)
            generator_step(model, g, monitor)
        dump = read_dump(monitor.recorder.dump())
    entries = [(entry.step, tuple(entry.losses), len(entry.batches)) for entry in dump.steps]
    # The critic sees two batches; the generator's pass goes through both.
    assert entries == [(0, ("d",), 2), (0, ("g",), 2), (1, ("d",), 2), (1, ("g",), 2)]


def test_a_bad_loss_under_a_scaler_is_one_skipped_step_and_is_located(tmp_path):
    model = mlp()
    first, second = sgd(model[0]), sgd(model[2])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with mixprec.monitor(model, [first, second], run=tmp_path, scaler=scaler) as monitor:
        for factor in (1.0, math.inf, 1.0):
            model.zero_grad()
            x = torch.randn(16, 4) * factor
            scaler.scale(monitor.loss(model(x).square().mean())).backward()
            scaler.step(first)
            scaler.step(second)
            scaler.update()
    assert (monitor.applied, monitor.skipped) == (2, 1)
    assert [(s.step, s.applied) for s in of(tmp_path, StepRecord)] == [(0, True), (1, False), (1, True)]
    assert [e.name for e in of(tmp_path, EventRecord)] == ["skipped"]
    located = [f for f in monitor.findings if f.evidence.get("reason")]
    assert [(f.name, f.site) for f in located] == [("bad input data", "<input> (args[0])")]
    assert not [f for f in monitor.findings if "compiled" in f.message]
    (path,) = find_dumps(tmp_path)
    bad = read_dump(path).steps[-1]
    assert (bad.outcome, len(bad.batches), list(bad.losses)) == ("skipped", 1, ["loss"])


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_one_of_two_is_skipped_and_the_other_applied(tmp_path, order):
    model = mlp()
    optimizers = [sgd(model[i]) for i in order]
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with mixprec.monitor(model, optimizers, Monitoring(every=1), run=tmp_path, scaler=scaler) as monitor:
        for is_bad in (False, True, False):
            model.zero_grad()
            hook = model[0].weight.register_hook(lambda grad: grad * math.inf) if is_bad else None
            scaler.scale(monitor.loss(model(torch.randn(16, 4)).square().mean())).backward()
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
            if hook is not None:
                hook.remove()
    assert (monitor.applied, monitor.skipped) == (3, 0)
    assert [(s.step, s.applied) for s in of(tmp_path, StepRecord)] == [(0, True), (1, True), (2, True)]
    (event,) = of(tmp_path, EventRecord)
    assert (event.step, event.site) == (1, "0.weight")
    assert event.message.startswith(f"skipped by optimizer{order.index(0)}: inf or NaN in the gradient of 0.weight")
    moved = {u.site for u in of(tmp_path, UpdateRecord) if u.step == 1}
    assert moved == {"2.weight", "2.bias"}
    assert not [f for f in monitor.findings if "compiled" in f.message]


def test_a_bad_part_of_a_gan_is_located_in_its_own_pass(tmp_path):
    model = gan()
    d, g = sgd(model["d"]), sgd(model["g"])
    with mixprec.monitor(model, {"g": g, "d": d}, run=tmp_path) as monitor:
        critic_step(model, d, monitor)
        generator_step(model, g, monitor)
        critic_step(model, d, monitor)
        with torch.no_grad():
            model["g"][2].weight[0, 0] = math.inf
        generator_step(model, g, monitor)
    located = [f for f in monitor.findings if f.evidence.get("reason")]
    assert [(f.step, f.site) for f in located] == [(1, "g.2 (weight)")]


def test_a_last_step_that_lacks_an_optimizer_is_told_at_the_end(tmp_path):
    model = mlp()
    first, second = sgd(model[0]), sgd(model[2])
    with mixprec.monitor(model, [first, second], run=tmp_path) as monitor:
        for _ in range(2):
            monitor.loss(model(torch.randn(16, 4)).square().mean()).backward()
            first.step()
    assert [(s.step, s.applied) for s in of(tmp_path, StepRecord)] == [(0, True), (1, True)]
    assert {u.site for u in of(tmp_path, UpdateRecord)} == {"0.weight", "0.bias"}


def test_weights_that_three_optimizers_do_not_move_are_told():
    model = nn.ModuleDict({name: nn.LayerNorm(4, bias=False) for name in "abc"}).to(torch.bfloat16)
    optimizers = {name: torch.optim.Adam(model[name].parameters(), lr=1e-3) for name in "abc"}
    with mixprec.monitor(model, optimizers) as monitor:
        for _ in range(20):
            for name in "abc":
                model[name].weight.grad = torch.full((4,), 0.1, dtype=torch.bfloat16)
                optimizers[name].step()
    found = [f.site for f in monitor.findings if f.name == "update too small"]
    assert found == ["a.weight", "b.weight", "c.weight"]


def test_losses_of_optimizers_that_alternate_are_no_spikes():
    """The generator's loss is 100 times the critic's, every third step: neither is a spike of the other's curve."""
    model = nn.ModuleDict({"d": nn.Linear(2, 1), "g": nn.Linear(2, 1)})
    d, g = sgd(model["d"], lr=0.0), sgd(model["g"], lr=0.0)
    torch.manual_seed(0)
    with mixprec.monitor(model, {"d": d, "g": g}) as monitor:
        for i in range(80):
            for optimizer, part, value in ((d, "d", 1.0), (g, "g", 100.0))[: 1 + (i % 3 == 0)]:
                optimizer.zero_grad()
                loss = model[part](torch.ones(4, 2)).mean() * 1e-3
                monitor.loss(loss - loss.detach() + value * (1 + 0.01 * torch.rand(())), part).backward()
                optimizer.step()
    assert not [f for f in monitor.findings if f.name.startswith("loss")]
