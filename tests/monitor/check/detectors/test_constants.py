"""Constants that vanish in 16 bits: eps, bounds, and their healthy twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mixprec.monitor import check_step
from mixprec.training import prepare
from tests.monitor.check.planted import Told, autocast_loss, batch, loss_of

BF16, FP16 = torch.bfloat16, torch.float16

LOST: dict[str, Callable[[object, Tensor], Tensor]] = {
    "log": lambda s, h: torch.log(h.relu() + 1e-8),
    "rsqrt": lambda s, h: h * torch.rsqrt((h * 0).square().mean(-1, keepdim=True) + 1e-8),
    "division": lambda s, h: h / (h.relu() + 1e-12),
    "normalize": lambda s, h: F.normalize(h * 0),
    "clamp_min": lambda s, h: torch.log(h.clamp(min=1e-10)),
    "clamp": lambda s, h: torch.log(h.relu().clamp(1e-8, 2.0)),
}

QUIET: dict[str, Callable[[object, Tensor], Tensor]] = {
    "where": lambda s, h: h / torch.where(h == 0, 1e-8, h),
    "masked_fill": lambda s, h: h / h.masked_fill(h == 0, 1e-10),
    "full_like": lambda s, h: h / torch.maximum(h.abs(), torch.full_like(h, 1e-8)),
    "tensor": lambda s, h: h / (h.abs() + 1 + torch.tensor(1e-8)),
    "gumbel": lambda s, h: h - torch.log(-torch.log(torch.full_like(h, 0.5) + 1e-20) + 1e-20),
    "cosine": lambda s, h: h * F.cosine_similarity(h, h + 1, eps=1e-8)[:, None],
}


@pytest.mark.parametrize("name", QUIET)
def test_an_eps_that_is_zero_in_fp16_and_that_nothing_meets_yet_is_a_warning(name: str) -> None:
    pure = Told(QUIET[name]).half()
    told = [f for f in check_step(pure, loss_of(pure, batch(dtype=FP16))) if f.name == "constant that vanishes"]
    assert [f.severity for f in told] == ["warning"], told
    for dtype in (torch.float32, BF16):
        wide = Told(QUIET[name]).to(dtype)
        found = check_step(wide, loss_of(wide, batch(dtype=dtype)))
        assert "constant that vanishes" not in [f.name for f in found]


@pytest.mark.parametrize("name", LOST)
def test_an_eps_that_is_zero_in_fp16(name: str) -> None:
    model, pure = Told(LOST[name]), Told(LOST[name]).half()
    for found in (
        check_step(model, autocast_loss(model, batch(), FP16)),
        check_step(pure, loss_of(pure, batch(dtype=FP16))),
    ):
        told = [f for f in found if f.name == "constant that vanishes"]
        assert told, found
        assert told[0].severity == "fault"
        assert told[0].site.startswith("after (")


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_the_same_eps_is_held_by_wider_ranges(dtype: torch.dtype, name: str) -> None:
    model = Told(LOST[name]).to(dtype)
    found = check_step(model, loss_of(model, batch(dtype=dtype)))
    assert [f for f in found if f.name == "constant that vanishes"] == []


@pytest.mark.parametrize("eps", [1e-4, 1e-6])
def test_an_eps_that_fp16_holds(eps: float) -> None:
    model = Told(lambda s, h: torch.sqrt(h.relu() + eps)).half()
    assert len(check_step(model, loss_of(model, batch(dtype=FP16)))) == 0


def test_the_recipe_makes_up_for_it_with_a_note() -> None:
    model = Told(lambda s, h: h * (h.detach().relu() + 1e-8))
    found = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16").check(loss_of(model, batch()))
    assert [(f.severity, f.name) for f in found] == [("note", "constant that vanishes")]
    healthy = Told(lambda s, h: torch.log(h.float().relu() + 1e-3))
    session = prepare(healthy, torch.optim.SGD(healthy.parameters(), lr=0.1), "fp16", loss_scale=8.0)
    assert [f.name for f in session.check(loss_of(healthy, batch()))] == []


SAVED = {
    **LOST,
    **{name: make for name, make in QUIET.items() if name != "tensor"},  # one number of fp32 promotes nothing
    "variance": lambda s, h: h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-8),
    "deviation": lambda s, h: h / (h.std(-1, keepdim=True) + 1e-8),
    "softmax": lambda s, h: h - torch.log(F.softmax(h, -1) + 1e-9),
    "norm": lambda s, h: h / h.norm(dim=-1, keepdim=True).clamp_min(1e-12),
    "far behind": lambda s, h: h / ((h.square().sum(-1, keepdim=True) * 0.5 + 1).sqrt() + 1e-10),
}


@pytest.mark.parametrize("name", SAVED)
def test_an_eps_that_the_recipe_saves_is_a_note(name: str) -> None:
    model = Told(SAVED[name])
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=1.0)
    told = [f for f in session.check(loss_of(model, batch())) if f.name == "constant that vanishes"]
    assert [f.severity for f in told] == ["note"], told
    assert "fp32 here" in told[0].message
    assert told[0].remedy.startswith("nothing under this recipe; under torch alone: ")
    for recipe in ("bf16", "mxfp8"):  # which hold it
        wide = Told(SAVED[name])
        session = prepare(wide, torch.optim.SGD(wide.parameters(), lr=0.1), recipe)
        assert "constant that vanishes" not in [f.name for f in session.check(loss_of(wide, batch()))]


def test_what_the_author_computes_in_fp32_is_saved_by_nobody_else() -> None:
    model = Told(lambda s, h: h / (h.float().square().mean(-1, keepdim=True) + 1e-8).sqrt().add(1.0))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=1.0)
    assert len(session.check(loss_of(model, batch()))) == 0


@pytest.mark.parametrize("recipe", ["bf16", "fp16"])
def test_a_bound_that_the_recipe_saves_is_a_note(recipe: str) -> None:
    for bounded in (lambda h: (h * 0 + 0.5).clamp(max=1 - 1e-6), lambda h: h.sigmoid().clamp(1e-4, 1 - 1e-6)):
        model = Told(lambda s, h, bounded=bounded: torch.log1p(-bounded(h)))
        session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe, loss_scale=1.0)
        told = [f for f in session.check(loss_of(model, batch())) if f.name == "bound that vanishes"]
        assert [f.severity for f in told] == ["note"]


@pytest.mark.parametrize(("dtype", "bound"), [(BF16, 1 - 1e-3), (BF16, 1 - 1e-6), (FP16, 1 - 1e-4), (FP16, 1 - 1e-6)])
def test_a_bound_that_rounds_to_one(dtype: torch.dtype, bound: float) -> None:
    reaches = Told(lambda s, h: torch.log1p(-(h * 0 + 1).clamp(max=bound))).to(dtype)
    (fault,) = [f for f in check_step(reaches, loss_of(reaches, batch(dtype=dtype))) if f.name == "bound that vanishes"]
    assert fault.severity == "fault"
    below = Told(lambda s, h: torch.log1p(-(h * 0 + 0.5).clamp(max=bound))).to(dtype)
    assert [f.severity for f in check_step(below, loss_of(below, batch(dtype=dtype)))] == ["warning"]


@pytest.mark.parametrize(("dtype", "bound"), [(BF16, 0.99), (FP16, 0.999), (torch.float32, 1 - 1e-6)])
def test_a_bound_that_the_dtype_holds(dtype: torch.dtype, bound: float) -> None:
    model = Told(lambda s, h: torch.log1p(-(h * 0 + 1).clamp(max=bound))).to(dtype)
    assert len(check_step(model, loss_of(model, batch(dtype=dtype)))) == 0


def test_squares_that_are_flushed() -> None:
    for square in (lambda h: h.square(), lambda h: h * h, lambda h: h.pow(2)):
        model = Told(lambda s, h, square=square: (square(h * 1e-5) + 1e-3).sqrt()).half()
        assert "squares flushed to zero" in [f.name for f in check_step(model, loss_of(model, batch(dtype=FP16)))]
        wide = Told(lambda s, h, square=square: (square(h.float() * 1e-5) + 1e-3).sqrt()).half()
        assert "squares flushed to zero" not in [f.name for f in check_step(wide, loss_of(wide, batch(dtype=FP16)))]
