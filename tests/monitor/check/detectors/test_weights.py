"""Case H3 seen before training: 16-bit weights whose updates are lost, an eps that vanishes, healthy twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

import mixprec.optim
from mixprec.monitor import check_step
from mixprec.specs import Recipe
from mixprec.training import prepare

BF16, FP16 = torch.bfloat16, torch.float16


class Norm(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32, value: float = 1.0) -> None:
        super().__init__()
        self.weight = Parameter(torch.full((4,), value, dtype=dtype))

    def loss(self, gradient: float = 0.1) -> Callable[[], Tensor]:
        return lambda: (self.weight.float() * gradient).sum()


def test_h3_is_found_before_training_and_told_with_the_recipe_that_mends_it() -> None:
    model = Norm()
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3), "bf16-true")
    (fault,) = session.check(model.loss())
    assert (fault.name, fault.severity, fault.site) == ("update too small", "fault", "weight")
    assert fault.evidence["share lost"] == 1.0
    assert fault.evidence["typical update / weight"] == pytest.approx(1e-3)
    assert "'bf16'" in fault.remedy
    session.step(model.loss()())
    assert model.weight.tolist() == [1.0] * 4  # so it is
    text = session.recipe.to_toml().replace('weights = "true"\n', fault.rule)
    assert Recipe.from_toml(text).weights == "master"


@pytest.mark.parametrize("recipe", ["bf16", "bf16-sr", "bf16-kahan", "bf16-split", "fp16"])
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_other_ways_to_keep_weights_are_healthy(dtype: torch.dtype, recipe: str) -> None:
    if recipe == "fp16" and dtype == BF16:
        dtype = FP16
    model = Norm(dtype)
    session = prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3), recipe)
    assert len(session.check(model.loss())) == 0


@pytest.mark.parametrize(
    ("dtype", "rate", "severity"),
    [(BF16, 1.9e-3, "fault"), (BF16, 2e-3, None), (FP16, 2.4e-4, "fault"), (FP16, 2.5e-4, None)],
)
def test_the_stall_threshold(dtype: torch.dtype, rate: float, severity: str | None) -> None:
    model = Norm(dtype)  # 2^-9 = 1.953e-3 of the weight, 2^-12 = 2.441e-4
    found = check_step(model, model.loss(), torch.optim.Adam(model.parameters(), lr=rate, eps=1e-4))
    assert [f.severity for f in found] == ([] if severity is None else [severity])


UPDATES: dict[str, tuple[Callable[[list[Parameter]], Optimizer], bool]] = {
    "sgd": (lambda ps: torch.optim.SGD(ps, lr=1e-2), True),  # 1e-2 * 0.1 = 1e-3
    "sgd, larger": (lambda ps: torch.optim.SGD(ps, lr=0.1), False),
    "momentum": (lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9), False),  # comes to 1e-2
    "adamw": (lambda ps: torch.optim.AdamW(ps, lr=1e-3), True),
    "adagrad": (lambda ps: torch.optim.Adagrad(ps, lr=1e-3), True),
    "rmsprop": (lambda ps: torch.optim.RMSprop(ps, lr=1e-4), True),
    "rmsprop, larger": (lambda ps: torch.optim.RMSprop(ps, lr=1e-3), False),  # 1e-3 / sqrt(0.01) at first
    "mixprec, masters": (lambda ps: mixprec.optim.AdamW(ps, lr=1e-3), False),
    "mixprec, true": (lambda ps: mixprec.optim.AdamW(ps, lr=1e-3, weights="true"), True),
    "rprop, unknown": (lambda ps: torch.optim.Rprop(ps, lr=1e-3), False),
}


@pytest.mark.parametrize("name", UPDATES)
def test_kinds_of_optimizers(name: str) -> None:
    make, is_lost = UPDATES[name]
    model = Norm(BF16)
    optimizer = make([model.weight])
    found = check_step(model, model.loss(), optimizer)
    assert [f.name for f in found] == ["update too small"] * is_lost


def test_a_warm_up_that_begins_at_zero_counts_with_its_full_rate() -> None:
    model = Norm(BF16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
    assert optimizer.param_groups[0]["lr"] == 0
    assert len(check_step(model, model.loss(), optimizer)) == 0


def test_clipping_makes_an_update_of_sgd_smaller() -> None:
    model = Norm(BF16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    assert len(check_step(model, model.loss(1.0), optimizer)) == 0
    assert [f.name for f in check_step(model, model.loss(1.0), optimizer, clip_norm=0.1)] == ["update too small"]


def test_the_share_that_is_told() -> None:
    class Mixed(nn.Module):
        def __init__(self, small: int) -> None:
            super().__init__()
            self.weight = Parameter(torch.ones(100, dtype=BF16))
            self.weight.data[:small] = 0.01

    for small, severity in ((60, []), (50, ["warning"]), (11, ["warning"]), (10, ["fault"])):
        model = Mixed(small)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        found = check_step(model, lambda model=model: model.weight.float().sum(), optimizer)
        assert [f.severity for f in found] == severity


def test_adams_eps_on_fp16_parameters() -> None:
    model = Norm(FP16, 0.01)
    (fault,) = check_step(model, model.loss(), torch.optim.Adam(model.parameters(), lr=1e-3))
    assert (fault.name, fault.severity) == ("optimizer eps that vanishes", "fault")
    assert len(check_step(model, model.loss(), torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4))) == 0
    assert len(check_step(model, model.loss(), mixprec.optim.AdamW(model.parameters(), lr=1e-3))) == 0
    bf16 = Norm(BF16, 0.01)
    assert len(check_step(bf16, bf16.loss(), torch.optim.Adam(bf16.parameters(), lr=1e-3))) == 0
