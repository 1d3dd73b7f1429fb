"""Adam on 16-bit parameters: its eps vanishes in fp16, so that a zero gradient is divided by zero."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import mixprec.optim
from mixprec.specs import Moments, recipe
from mixprec.training import Session, prepare

START = (1.0, -2.0, 0.5)


class Three(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(START, dtype=dtype))

    def forward(self, gradient: float) -> Tensor:
        return (self.p.float() * gradient).sum()


OPTIMIZERS = {
    "adam": lambda ps: torch.optim.Adam(ps, lr=1e-3, eps=1e-8),
    "adam fused": lambda ps: torch.optim.Adam(ps, lr=1e-3, eps=1e-8, fused=True),
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-3, eps=1e-8, weight_decay=0.0),
    "mixprec": lambda ps: mixprec.optim.AdamW(ps, lr=1e-3, eps=1e-8, weight_decay=0.0),
}


def build(optimizer: str, name: str, dtype: torch.dtype, **options: object) -> Session:
    model = Three(dtype)
    return prepare(model, OPTIMIZERS[optimizer](model.parameters()), recipe(name, **options), loss_scale="none")


def full(session: Session) -> list[float]:
    (kept,) = session._kept.values()
    return kept.full_weight(session.model.p).tolist()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_one_step(name: str, dtype: torch.dtype, optimizer: str) -> None:
    session = build(optimizer, name, dtype)
    assert session.step(session.model(0.0)).applied
    assert session.model.p.tolist() == list(START)
    session = build(optimizer, name, dtype)
    assert session.step(session.model(1e-4)).applied
    assert full(session) == pytest.approx([0.999, -2.001, 0.499], abs=1e-5)
    assert torch.equal(session.model.p, torch.tensor(full(session)).to(dtype))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["bf16-split", "bf16-kahan", "bf16-sr", "bf16-true"])
def test_a_zero_gradient_moves_nothing_under_any_keeping(name: str, optimizer: str) -> None:
    session = build(optimizer, name, torch.float32)
    for _ in range(3):
        assert session.step(session.model(0.0)).applied
    assert session.model.p.tolist() == list(START)
    assert session.step(session.model(1e-4)).applied
    assert session.model.p.isfinite().all()


@pytest.mark.parametrize("kind", ["fp32", "bf16", "e4m3", "dynamic"])
def test_nor_under_any_keeping_of_moments(kind: str) -> None:
    session = build("mixprec", "fp16", torch.float16, moments=Moments(kind=kind, small=0))
    assert session.step(session.model(0.0)).applied
    assert session.model.p.tolist() == list(START)
    assert session.step(session.model(1e-4)).applied
    assert session.model.p.isfinite().all()


def test_pure_fp16_whose_eps_vanishes_is_refused_with_the_way_out() -> None:
    model = Three(torch.float16)
    optimizer = OPTIMIZERS["adam"](model.parameters())
    with pytest.raises(ValueError, match=r"eps=1e-08, which is 0 in fp16.*weights='master'"):
        prepare(model, optimizer, recipe("fp16", weights="true"))
    assert type(model) is Three
    session = prepare(model, mixprec.optim.AdamW(model.parameters(), lr=1e-3), recipe("fp16", weights="true"))
    assert session.step(model(0.0)).applied
    assert model.p.tolist() == list(START)
