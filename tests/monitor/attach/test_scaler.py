"""A scaler that is watched can be copied and pickled; its copies tell nobody."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import mixprec
import mixprec.monitor
from mixprec.monitor import Monitoring
from mixprec.nn import convert


class OwnScaler(torch.amp.GradScaler):
    """A user's own."""


def setting(kind=torch.amp.GradScaler):
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), kind("cpu", init_scale=8.0)


def by_torch(scaler):
    file = io.BytesIO()
    torch.save(scaler, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "torch.save": by_torch,
    **{f"pickle {p}": lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("kind", [torch.amp.GradScaler, OwnScaler])
@pytest.mark.parametrize("way", list(COPIES))
def test_a_copy_is_of_the_scalers_own_class_and_tells_nobody(way, kind):
    model, optimizer, scaler = setting(kind)
    other = nn.Linear(2, 1)
    others = torch.optim.SGD(other.parameters(), lr=0.1)
    with mixprec.monitor(model, optimizer, scaler=scaler) as monitor:
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        twin = COPIES[way](scaler)
        assert type(twin) is kind
        assert twin.get_scale() == scaler.get_scale()
        assert "mixprec" not in repr(vars(twin))
        twin.scale(other(torch.ones(1, 2)).sum() * torch.inf).backward()
        twin.step(others)
        assert (monitor.applied, monitor.skipped) == (1, 0)
        with pytest.raises(ValueError, match="watched by another monitor already"):
            mixprec.monitor(model, optimizer, scaler=scaler)
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        scaler.step(optimizer)
        assert monitor.applied == 2
    assert type(scaler) is kind


@pytest.mark.parametrize("recipe", [None, "mxfp8"])
def test_model_and_optimizer_can_be_copied_and_pickled_in_the_middle_of_a_sampled_step(recipe):
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 1))
    if recipe is not None:
        convert(model, recipe)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with mixprec.monitor(model, optimizer, Monitoring(every=1)) as monitor:
        for _ in range(2):
            loss = model(torch.ones(4, 32)).sum()
            for again in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
                twin, twins = again((model, optimizer))
                twin(torch.full((4, 32), 1e4)).sum().backward()
                twins.step()
            monitor.loss(loss).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert monitor.applied == 2
        assert max(r.amax for r in monitor.statistics() if (r.site, r.role) == ("0", "input")) == 1.0
