"""Scatters, sums, buffers and counters in 16 bits, and their healthy twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mixprec.monitor import check_step
from mixprec.training import prepare
from tests.monitor.check.planted import Told, autocast_loss, batch, loss_of

BF16, FP16 = torch.bfloat16, torch.float16
ROWS = torch.zeros(4, dtype=torch.long)

SCATTERS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "index_add": lambda s, h: s.buf.index_add(0, ROWS, h),
    "index_add_": lambda s, h: s.buf.clone().index_add_(0, ROWS, h),
    "index_copy": lambda s, h: s.buf.index_copy(0, torch.arange(4), h),
    "index_put_": lambda s, h: s.buf.clone().index_put_((torch.arange(4),), h),
    "scatter": lambda s, h: s.buf.scatter(0, ROWS[:, None].expand(4, 8), h),
    "scatter_add": lambda s, h: s.buf.scatter_add(0, ROWS[:, None].expand(4, 8), h),
    "scatter_reduce": lambda s, h: s.buf.scatter_reduce(0, ROWS[:, None].expand(4, 8), h, "sum"),
    "masked_scatter": lambda s, h: s.buf.masked_scatter(torch.ones(4, 8).bool(), h),
}


@pytest.mark.parametrize("name", sorted(SCATTERS.keys() - {"index_copy"}))  # whose operands autocast promotes
@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_a_scatter_that_torch_refuses_is_a_fault(dtype: torch.dtype, name: str) -> None:
    model = Told(SCATTERS[name], buf=torch.zeros(4, 8))
    (fault,) = check_step(model, autocast_loss(model, batch(), dtype))
    assert (fault.name, fault.severity) == ("scatter into another dtype", "fault")
    assert fault.site == f"after ({name.strip('_')})"
    assert "tests/monitor/check/detectors/test_accumulators.py:" in fault.message
    assert "source.to(buffer.dtype)" in fault.remedy


@pytest.mark.parametrize("name", SCATTERS)
def test_under_a_recipe_it_is_a_note(name: str) -> None:
    model = Told(SCATTERS[name], buf=torch.zeros(4, 8))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    (note,) = session.check(loss_of(model, batch()))
    assert (note.name, note.severity) == ("scatter into another dtype", "note")


@pytest.mark.parametrize("name", SCATTERS)
def test_a_source_of_the_buffers_dtype_is_healthy(name: str) -> None:
    def cast(s: nn.Module, h: Tensor) -> Tensor:
        return SCATTERS[name](s, h.float())

    model = Told(cast, buf=torch.zeros(4, 8))
    assert len(check_step(model, autocast_loss(model, batch(), BF16))) == 0
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    assert len(session.check(loss_of(model, batch()))) == 0


@pytest.mark.parametrize(("dtype", "rows", "told"), [(BF16, 64, 1), (BF16, 63, 0), (FP16, 512, 1), (FP16, 511, 0)])
def test_many_additions_to_one_element(dtype: torch.dtype, rows: int, told: int) -> None:
    index = torch.zeros(rows, dtype=torch.long)
    forms: list[Callable[[nn.Module, Tensor], Tensor]] = [
        lambda s, h: torch.zeros(4, 8, dtype=h.dtype).index_add(0, index, h),
        lambda s, h: torch.zeros(4, 8, dtype=h.dtype).index_put((index,), h, accumulate=True),
        lambda s, h: torch.zeros(4, 8, dtype=h.dtype).scatter_add(0, index[:, None].expand(rows, 8), h),
    ]
    for form in forms:
        model = Told(form).to(dtype)
        found = check_step(model, loss_of(model, batch(rows=rows, dtype=dtype)))
        assert [f.name for f in found if f.name == "scattered sum in 16 bits"] == ["scattered sum in 16 bits"] * told
        wide = Told(lambda s, h, form=form: form(s, h.float())).to(dtype)
        assert "scattered sum in 16 bits" not in [
            f.name for f in check_step(wide, loss_of(wide, batch(8, rows, dtype)))
        ]


ADVANCES: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "counter": lambda s, h: (s.buf.add_(1), h)[1],
    "moving average": lambda s, h: (s.buf.mul_(0.999).add_(h.detach().mean(0), alpha=0.001), h)[1],
    "reassigned": lambda s, h: (setattr(s, "buf", 0.9 * s.buf + 0.1 * h.detach().mean(0)), h)[1],
    "lerp": lambda s, h: (s.buf.lerp_(h.detach().mean(0), 0.01), h)[1],
}


@pytest.mark.parametrize("name", ADVANCES)
@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_a_16_bit_buffer_that_each_step_advances(dtype: torch.dtype, name: str) -> None:
    model = Told(ADVANCES[name], buf=torch.zeros(8)).to(dtype)
    (warning,) = [f for f in check_step(model, loss_of(model, batch(dtype=dtype))) if f.severity != "note"]
    assert (warning.name, warning.site) == ("16-bit buffer that accumulates", "after.buf")
    assert ("256" if dtype == BF16 else "2048") in warning.message


@pytest.mark.parametrize("name", ADVANCES)
def test_fp32_buffers_and_constant_ones_are_healthy(name: str) -> None:
    model = Told(ADVANCES[name], buf=torch.zeros(8))
    assert len(check_step(model, loss_of(model, batch()))) == 0
    constant = Told(lambda s, h: h + s.buf, buf=torch.ones(8)).bfloat16()
    assert len(check_step(constant, loss_of(constant, batch(dtype=BF16)))) == 0


def test_batch_norm_statistics() -> None:
    def norm() -> nn.Sequential:
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))

    for dtype in (BF16, FP16):
        model = norm().to(dtype)
        (warning,) = check_step(model, loss_of(model, batch(dtype=dtype)))
        assert (warning.name, warning.site) == ("batch norm statistics in 16 bits", "1.running_mean")
        assert "1.running_var" in warning.message
        assert len(check_step(model.eval(), loss_of(model, batch(dtype=dtype)))) == 0
    model = norm()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    assert len(session.check(loss_of(model, batch()))) == 0


def test_a_loss_in_16_bits() -> None:
    model = nn.Linear(8, 8).bfloat16()
    (warning,) = check_step(model, lambda: model(batch(dtype=BF16)).square().mean())
    assert (warning.name, warning.severity) == ("loss in 16 bits", "warning")
    assert len(check_step(model, loss_of(model, batch(dtype=BF16)))) == 0


def test_an_optimizers_step_counter() -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    loss_of(model, batch())().backward()
    optimizer.step()
    assert len(check_step(model, loss_of(model, batch()), optimizer)) == 0
    for state in optimizer.state.values():
        state["step"] = state["step"].bfloat16()
    (fault,) = check_step(model, loss_of(model, batch()), optimizer)
    assert (fault.name, fault.site) == ("step counter in 16 bits", "weight")
