"""The site of a fault of the precision is found by trying each."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from mixprec.compare import Workload
from mixprec.compare.drill import FAULTS
from mixprec.compare.drill._precision import SiteFault
from mixprec.compare.drill._worst_site import layer_sites, worst_site
from mixprec.specs import recipe


class Two(nn.Module):
    """Only one of two layers has a say in the output."""

    def __init__(self, loud: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.norm = nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16)
        self.loud = loud

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        return self.norm(a + 1e-4 * b if self.loud == "a" else b + 1e-4 * a)


def workload(loud: str) -> Workload:
    model = Two(loud)
    target = model(x := torch.randn(64, 16)).detach()
    return Workload(
        model=model,
        loss=lambda model, batch: (model(batch) - target).square().mean(),
        batches=lambda step: x,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=100,
        evaluate=lambda model: {"loss": 0.0},
    )


def test_layers_alone_are_sites():
    assert layer_sites(Two("a")) == ("a", "b")
    assert layer_sites(nn.LayerNorm(4)) == ()


def test_the_site_that_bears_it_worst_and_the_model_is_left_as_it_was():
    for kind in FAULTS.values():
        if issubclass(kind, SiteFault):
            for loud in ("a", "b"):
                job = workload(loud)
                before = {name: value.clone() for name, value in job.model.state_dict().items()}
                assert worst_site(kind, job, recipe("bf16"), 0) == loud
                assert type(job.model.a) is nn.Linear
                assert all(torch.equal(value, before[name]) for name, value in job.model.state_dict().items())


def test_a_model_without_a_layer_has_none():
    job = replace(workload("a"), model=nn.LayerNorm(16))
    assert worst_site(FAULTS["fp4-site"], job, recipe("fp32"), 0) == ""
