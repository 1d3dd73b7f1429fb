"""The full value of a parameter by its name, however it is kept."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.training import prepare


def build(name, dtype=torch.bfloat16):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4)).to(dtype)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), name, process_group=None)
    session.step(model(torch.ones(2, 8, dtype=dtype)).float().square().mean())
    return session


@pytest.mark.parametrize("name", ["bf16", "bf16-split"])
def test_it_is_what_an_fp32_master_holds(name):
    session, master = build(name), build("bf16")
    value = session.full_weight("0.weight")
    assert value.dtype == torch.float32
    assert torch.equal(value, master.optimizer.param_groups[0]["params"][0].detach())
    assert not torch.equal(value, session.model[0].weight.float())  # 16 bits do not hold it
    value.zero_()
    assert session.full_weight("0.weight").count_nonzero() > 0


def test_without_anything_beside_it_the_weight_is_its_own_value():
    assert torch.equal(build("bf16-sr").full_weight("0.bias"), build("bf16-sr").model[0].bias.float())
    wide = build("fp32", torch.float64)
    assert torch.equal(wide.full_weight("0.bias"), wide.model[0].bias)


def test_a_write_from_outside_is_followed_and_told():
    session = build("bf16")
    with torch.no_grad():
        session.model[0].bias.fill_(2.0)
    assert session.full_weight("0.bias").tolist() == [2.0] * 4
    assert [event.site for event in session.events if event.name == "master follows"] == ["0.bias"]


def test_an_unknown_name_is_refused_with_those_that_are_near():
    with pytest.raises(ValueError, match=r"full_weight: no parameter is named '0.weights', expected .*, e.g. 0.weight"):
        build("bf16").full_weight("0.weights")
