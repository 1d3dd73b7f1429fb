"""H7: the scaler's state is resumed exactly, in a fresh process and into a scaler that was used; through every way."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mixprec import prepare
from mixprec.specs import LossScale

SCALE = LossScale(kind="dynamic", initial=2.0**8, interval=3)
BEFORE = [(256.0, 1), (128.0, 0), (128.0, 1), (128.0, 2)]
AFTER = [(256.0, 0), (256.0, 1), (256.0, 2), (512.0, 0)]


def build():
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=SCALE)


def run(session, iterations):
    trace = []
    for i in iterations:
        loss = session.model(torch.ones(4, 2)).square().mean()
        session.step(loss * float("inf") if i == 1 else loss)
        trace.append((session.loss_scale_state.scale, session.loss_scale_state.good_steps))
    return trace


def by_torch(session, folder):
    file = io.BytesIO()
    parts = {"model": session.model, "optimizer": session.optimizer, "session": session}
    torch.save({name: part.state_dict() for name, part in parts.items()}, file)

    def load(other):
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        for name, part in {"model": other.model, "optimizer": other.optimizer, "session": other}.items():
            part.load_state_dict(saved[name])

    return load


def by_checkpoint(session, folder):
    session.save(folder)
    return lambda other: other.resume(folder)


@pytest.mark.parametrize("way", [by_torch, by_checkpoint])
@pytest.mark.parametrize("used", [0, 1, 3, 7])
def test_the_scaler_goes_on(tmp_path, way, used):
    whole = build()
    assert run(whole, range(4)) == BEFORE
    load = way(whole, tmp_path)
    assert run(whole, range(4, 8)) == AFTER
    other = build()
    run(other, range(used))
    load(other)
    state = other.loss_scale_state
    assert (state.scale, state.good_steps, other.applied, other.skipped) == (128.0, 2, 3, 1), "loading advances nothing"
    assert run(other, range(4, 8)) == AFTER
    assert torch.equal(other.model.weight, whole.model.weight)
    assert torch.equal(other.model.bias, whole.model.bias)
    assert str(other.state_dict()) == str(whole.state_dict())


FRESH = """
import sys
from tests.cases.test_h7_resume_the_scaler import build, run
session = build()
session.resume(sys.argv[1])
print(session.loss_scale_state.scale, session.loss_scale_state.good_steps)
print(run(session, range(4, 8)))
print(session.model.weight.tolist(), session.model.bias.tolist())
"""


def test_in_a_fresh_process(tmp_path):
    whole = build()
    run(whole, range(4))
    whole.save(tmp_path)
    run(whole, range(4, 8))
    command = [sys.executable, "-c", FRESH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.stdout.splitlines() == [
        "128.0 2",
        str(AFTER),
        f"{whole.model.weight.tolist()} {whole.model.bias.tolist()}",
    ], done.stderr
