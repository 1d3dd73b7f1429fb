"""Names of parameters are gathered when they change, not in each step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mixprec.monitor
from mixprec.monitor import NamedParameters
from mixprec.training import prepare


class Counted(nn.Sequential):
    """Counts how often somebody walks through all of its parameters."""

    walks = 0

    def named_parameters(self, *args, **kwargs):
        yield from super().named_parameters(*args, **kwargs)
        self.walks += 1


def test_a_parameter_that_is_replaced_is_found_and_a_foreign_one_is_asked_for_once():
    model = Counted(nn.Linear(2, 1))
    named, foreign = NamedParameters(model), nn.Parameter(torch.ones(1))
    assert named.names(model.parameters())[model[0].weight] == "0.weight"
    before = model.walks
    for _ in range(3):
        assert foreign not in named.names([model[0].weight, foreign])
    assert model.walks == before + 1
    model[0].weight = nn.Parameter(torch.zeros(1, 2))
    assert named.names([model[0].weight])[model[0].weight] == "0.weight"
    assert named.parameters["0.weight"] is model[0].weight


@pytest.mark.parametrize("is_session", [False, True])
def test_steps_do_not_walk_through_the_parameters(is_session):
    model = Counted(nn.Linear(2, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = prepare(model, optimizer, "fp32") if is_session else mixprec.monitor(model, optimizer)
    for i in range(5):
        walks = model.walks
        loss = model(torch.ones(4, 2)).mean()
        if is_session:
            session.step(loss)
        else:
            loss.backward()
            optimizer.step()
        assert i == 0 or model.walks == walks
    session.restore() if is_session else session.remove()
