"""Case H2 seen before training, masks of every spelling, and healthy ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mixprec.monitor import check_step
from mixprec.training import prepare
from tests.monitor.check.planted import H2, Told, autocast_loss, batch, loss_of

BF16, FP16 = torch.bfloat16, torch.float16
LOW = torch.finfo(FP16).min
MASK = torch.tensor([[LOW, LOW], [LOW, 0.0]])
SCORES = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]])
INF = float("inf")


def test_h2_in_fp16_names_the_addition_and_the_row() -> None:
    model = H2(MASK).half()
    found = check_step(model, lambda: model(SCORES.half()).float().square().mean())
    told = {f.name: f for f in found.faults}
    assert told.keys() == {"mask plus score", "masked row"}
    assert told["mask plus score"].site == "<model> (add)"
    assert told["mask plus score"].evidence["lowest score"] == -30
    assert told["masked row"].site == "softmax (softmax)"
    assert "-inf row" in told["masked row"].message
    assert told["masked row"].evidence["rows"] == 1


def test_h2_before_the_scores_are_large_enough_is_a_warning() -> None:
    model = H2(MASK).half()
    (warning,) = check_step(model, lambda: model(SCORES.half() / 10).float().square().mean())
    assert (warning.name, warning.severity) == ("mask plus score", "warning")


def test_h2_under_the_fp16_recipe_is_a_note_for_the_recipe_adds_in_fp32() -> None:
    model = H2(MASK.half())
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale="none")
    (note,) = session.check(lambda: model(SCORES.half()).square().mean())
    assert (note.name, note.severity) == ("mask plus score", "note")
    loss = model(SCORES.half())
    assert loss.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_h2_has_room_in_wider_ranges(dtype: torch.dtype) -> None:
    model = H2(torch.where(MASK == 0, 0.0, torch.finfo(dtype).min)).to(dtype)
    assert len(check_step(model, lambda: model(SCORES.to(dtype)).float().square().mean())) == 0


def shifted(h: Tensor) -> Tensor:
    return h > h.mean()


FILLS: dict[str, Callable[[object, Tensor], Tensor]] = {
    "masked_fill": lambda s, h: F.softmax(h.masked_fill(shifted(h), -1e9), -1),
    "masked_fill_": lambda s, h: F.softmax(h.clone().masked_fill_(shifted(h), -1e9), -1),
    "where": lambda s, h: F.softmax(torch.where(shifted(h), -1e9, h), -1),
    "product": lambda s, h: F.softmax(h + shifted(h).to(h.dtype) * -1e9, -1),
    "full_like": lambda s, h: F.softmax(torch.where(shifted(h), torch.full_like(h, -1e9), h), -1),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("way", ["autocast", "pure", "recipe"])
def test_a_constant_that_fp16_does_not_hold(way: str, name: str) -> None:
    torch.manual_seed(0)
    model, x = Told(FILLS[name]), batch()
    if way == "autocast":
        found = check_step(model, autocast_loss(model, x, FP16))
    elif way == "pure":
        model = model.half()
        found = check_step(model, loss_of(model, x.half()))
    else:
        found = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16").check(loss_of(model, x))
    told = [f for f in found if f.name == "hard-coded mask"]
    if way == "recipe":
        assert not found.faults
        assert not found.warnings
        # Filled in place it is the lowest number that fp16 has.
        assert [f.severity for f in told] == ([] if name == "masked_fill_" else ["note"])
    else:
        assert told
        assert told[0].severity in ("fault", "warning")
        assert told[0].site.startswith("after (")
        assert "tests/monitor/check/detectors/test_masks.py:" in told[0].message


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_the_same_constants_are_held_by_wider_ranges(dtype: torch.dtype, name: str) -> None:
    torch.manual_seed(0)
    model = Told(FILLS[name]).to(dtype)
    assert len(check_step(model, loss_of(model, batch(dtype=dtype)))) == 0


def test_rows_that_are_masked_whole() -> None:
    whole = Told(lambda s, h: F.softmax(h.masked_fill(torch.arange(4)[:, None] == 0, -INF), -1))
    (fault,) = check_step(whole, loss_of(whole, batch())).faults
    assert (fault.name, fault.evidence["rows"]) == ("masked row", 1)
    log = Told(lambda s, h: F.log_softmax(h.masked_fill(torch.arange(4)[:, None] == 0, -INF), -1))
    assert check_step(log, loss_of(log, batch()))[0].name == "masked row"
    causal = Told(lambda s, h: F.softmax((h @ h.T).masked_fill(torch.ones(4, 4).triu(1).bool(), -INF), -1))
    assert len(check_step(causal, loss_of(causal, batch()))) == 0


def attention(mask: Tensor) -> Told:
    return Told(lambda s, h: F.scaled_dot_product_attention(h[None], h[None], h[None], attn_mask=mask)[0])


def test_attention_with_masks() -> None:
    causal = torch.ones(4, 4).tril().bool()
    for mask in (causal, torch.zeros(4, 4).masked_fill(~causal, -INF)):
        model = attention(mask)
        assert len(check_step(model, loss_of(model, batch()))) == 0


def test_a_mask_that_is_no_lower_than_the_scores() -> None:
    weak = Told(lambda s, h: F.softmax((h * 0 - 9000.0).masked_fill(shifted(h), -9000.0), -1))
    assert [f.name for f in check_step(weak, loss_of(weak, batch()))] == ["mask too weak"]
    strong = Told(lambda s, h: F.softmax(h.masked_fill(shifted(h), -1e4), -1))
    assert len(check_step(strong, loss_of(strong, batch()))) == 0
    assert math.isfinite(float(strong(batch()).sum().detach()))


SCALED: dict[str, Callable[[object, Tensor], Tensor]] = {
    "times": lambda s, h: (h * 1e6).tanh(),
    "times, from the left": lambda s, h: (1e6 * h).tanh(),
    "in place": lambda s, h: h.clone().mul_(1e6).tanh(),
    "of zeros too": lambda s, h: (h.relu() * 1e6).tanh(),
    "negative": lambda s, h: (h.abs() * -1e6).tanh(),
    "from a number": lambda s, h: (1e6 - h).tanh() * h,
}


@pytest.mark.parametrize("name", SCALED)
def test_a_large_factor_is_no_mask(name: str) -> None:
    torch.manual_seed(0)
    for dtype in (torch.float32, BF16, FP16):
        pure = Told(SCALED[name]).to(dtype)
        found = check_step(pure, loss_of(pure, batch(dtype=dtype)))
        assert [f.name for f in found if "mask" in f.name] == []
        if dtype == FP16:
            assert "overflow" in [f.name for f in found.faults]
            assert "bf16" in found.faults[0].remedy
        else:
            assert found.faults == ()
    for recipe in ("fp16", "bf16", "mxfp8"):
        model = Told(SCALED[name])
        found = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe).check(loss_of(model, batch()))
        assert [f.name for f in found if "mask" in f.name] == []


def test_a_mask_of_zeros_and_ones_times_a_constant_is_one() -> None:
    for mask in (lambda h: shifted(h).to(h.dtype), lambda h: 1 - shifted(h).to(h.dtype)):
        torch.manual_seed(0)
        model = Told(lambda s, h, mask=mask: F.softmax(h + mask(h) * -1e9, -1)).half()
        found = check_step(model, loss_of(model, batch(dtype=FP16)))
        assert [f.name for f in found if f.name == "hard-coded mask"] == ["hard-coded mask"]
