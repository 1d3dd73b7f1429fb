from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import mixprec


def model_of() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_in_the_middle_of_a_step_has_nothing_of_those_who_watch(copied, tmp_path):
    torch.manual_seed(0)
    upstream, model = nn.Linear(4, 4), model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = mixprec.prepare(model, optimizer, "fp32", run=tmp_path, monitor=mixprec.monitor.Monitoring(every=1))
    # What the model is called with has a graph, which no copy can take along.
    loss = model(upstream(torch.randn(3, 4))).square().mean()
    clone = copied(model)
    assert session.step(loss).applied
    before, passes = session.applied, len(session._watching._watches._watches[0].recording.passes)
    clone(torch.randn(3, 4)).sum().backward()
    assert (session.applied, len(session._watching._watches._watches[0].recording.passes)) == (before, passes)
    session.restore()


def test_a_pickled_model_does_not_carry_its_batches():
    model = model_of()
    plain = len(pickle.dumps(model))
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    session.backward(model(torch.randn(4096, 4)).square().mean())
    assert len(pickle.dumps(model)) < plain + 20_000  # 64 KB of batch are not in it
    session.restore()
