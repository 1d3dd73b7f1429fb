"""The loss of somebody else's loop: found where the model returns it, and left out where nobody knows it."""

from __future__ import annotations

import math
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import mixprec
import mixprec.monitor
from mixprec.monitor.doctor import diagnose
from mixprec.records import FindingRecord, StepRecord, read_records
from mixprec.report import write_report

FORMS = {
    "object": lambda loss, logits: SimpleNamespace(loss=loss, logits=logits),
    "dict": lambda loss, logits: {"loss": loss, "logits": logits},
    "ordered dict": lambda loss, logits: OrderedDict(loss=loss, logits=logits),
    "tuple": lambda loss, logits: (loss, logits),
    "list": lambda loss, logits: [loss, logits],
    "bare": lambda loss, logits: loss,
}


class Returns(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.layer, self.form = nn.Linear(2, 1), form

    def forward(self, x):
        logits = self.layer(x)
        return self.form(logits.square().mean(), logits)


def steps_of(run):
    return [r for r in read_records(run / "records.jsonl") if isinstance(r, StepRecord)]


def train(model, run, loss_of, steps=1, factor=1.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    with mixprec.monitor(model, optimizer, run=run) as monitor:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model(torch.ones(4, 2))) * factor
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
    return losses, monitor


def first_scalar(output):
    values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else [output]
    return output.loss if hasattr(output, "loss") else next(v for v in values if v.dim() == 0)


@pytest.mark.parametrize("name", list(FORMS))
def test_a_loss_that_is_returned_is_found(tmp_path, name):
    losses, _ = train(Returns(FORMS[name]), tmp_path, first_scalar)
    assert [step.loss for step in steps_of(tmp_path)] == losses


@pytest.mark.parametrize(
    "form",
    [
        lambda loss, logits: logits,
        lambda loss, logits: (logits, loss.detach()),
        lambda loss, logits: (loss.detach(), logits),
        lambda loss, logits: {"loss": None, "logits": logits},
        lambda loss, logits: {"loss": logits, "logits": logits},
    ],
)
def test_where_no_loss_is_known_none_is_recorded(tmp_path, form):
    model = Returns(form)
    train(model, tmp_path, lambda output: model.layer(torch.ones(4, 2)).square().mean())
    (step,) = steps_of(tmp_path)
    assert step.loss is None
    assert step.grad_norm > 0
    assert '"loss": null' in (tmp_path / "records.jsonl").read_text()


def test_readers_do_without_a_loss(tmp_path):
    model = Returns(lambda loss, logits: logits)
    _, monitor = train(model, tmp_path, lambda output: output.square().mean(), steps=50)
    assert not monitor.findings
    diagnosis = diagnose(tmp_path)
    assert diagnosis.about == ("recipe as it is, seed 0: 50 applied steps",)
    assert not [d for d in diagnosis.findings if "loss" in d.finding.name]
    assert "training loss of" not in write_report(tmp_path).read_text()


def test_records_of_earlier_versions_are_read(tmp_path):
    train(Returns(FORMS["tuple"]), tmp_path, first_scalar)
    file = tmp_path / "records.jsonl"
    lines = file.read_text().splitlines()
    (i,) = (i for i, line in enumerate(lines) if '"type": "step"' in line)
    loss = lines[i].partition('"loss": ')[2].partition(",")[0]
    lines[i] = lines[i].replace(f'"loss": {loss}', '"loss": "nan"')
    file.write_text("\n".join(lines) + "\n")
    (step,) = steps_of(tmp_path)
    assert math.isnan(step.loss)


def test_a_loss_that_is_not_finite_is_told_in_a_loop_too(tmp_path):
    """Its gradients are finite, the weights move: the loss is told, and where it was made."""

    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.penalty = nn.Linear(2, 1), nn.Identity()

        def forward(self, x):
            y = self.layer(x)
            return y.square().mean() + self.penalty((y.detach() * 0).abs().reciprocal().mean())

    train(Adds(), tmp_path, lambda output: output, steps=3)
    assert [step.applied for step in steps_of(tmp_path)] == [True] * 3
    found = [r for r in read_records(tmp_path / "records.jsonl") if isinstance(r, FindingRecord)]
    assert [r.name for r in found if r.name == "loss not finite"] == ["loss not finite"]
    (located,) = [r for r in found if r.evidence.get("reason")]
    assert (located.step, located.evidence["operation"], located.evidence["direction"]) == (0, "reciprocal", "forward")
