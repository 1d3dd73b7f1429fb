"""Two processes through the doors: what is not finite on one is skipped on both (H11)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mixprec.compat import apex_amp as amp
from mixprec.compat.torch_amp import GradScaler
from tests.distributed.processes import run

pytestmark = pytest.mark.slow


class Weight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = torch.nn.Parameter(torch.ones(1))

    def forward(self, factor: float) -> torch.Tensor:
        return (factor * self.p).sum()


def factors(rank: int) -> tuple[float, float]:
    return (float("inf") if rank == 0 else 1.0, 1.0)


def through_torch_amp(process_group: str | None) -> list[tuple[float, float]]:
    model = Weight()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = GradScaler("cpu", init_scale=8.0, process_group=process_group)  # pyright: ignore[reportArgumentType]
    seen = []
    for factor in factors(torch.distributed.get_rank()):
        optimizer.zero_grad()
        scaler.scale(model(factor)).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append((model.p.item(), scaler.get_scale()))
    return seen


def through_apex(opt_level: str) -> list[tuple[float, float]]:
    model = Weight()
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=1.0), opt_level=opt_level, max_loss_scale=8.0, verbosity=0
    )
    seen = []
    for factor in factors(torch.distributed.get_rank()):
        optimizer.zero_grad()
        with amp.scale_loss(model(factor), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        seen.append((model.p.item(), amp.state_dict(optimizer)["loss_scaler0"]["loss_scale"]))
    return seen


def a_gan() -> list[float]:
    """On rank 1 the loss of one model makes the other's gradient infinite."""
    (g, d), (optimizer_g, optimizer_d) = _two()
    bad = float("inf") if torch.distributed.get_rank() == 1 else 1.0
    with amp.scale_loss(g(1.0) + d(bad), optimizer_g) as scaled_loss:
        scaled_loss.backward()
    optimizer_g.step()
    optimizer_d.step()
    return [g.p.item(), d.p.item()]


def _two() -> Any:
    models = [Weight(), Weight()]
    optimizers = [torch.optim.SGD(m.parameters(), lr=1.0) for m in models]
    return amp.initialize(models, optimizers, opt_level="O1", max_loss_scale=8.0, verbosity=0)


def checks() -> dict[str, Any]:
    return {
        "torch": through_torch_amp("default"),
        "alone": through_torch_amp(None),
        "O1": through_apex("O1"),
        "O2": through_apex("O2"),
        "gan": a_gan(),
    }


def test_ranks_skip_together() -> None:
    first, second = run(checks)
    for rank in (first, second):
        assert rank["torch"] == rank["O1"] == rank["O2"] == [(1.0, 4.0), (0.0, 4.0)]
        assert rank["gan"] == [0.0, 1.0]
    assert (first["alone"], second["alone"]) == ([(1.0, 4.0), (0.0, 4.0)], [(0.0, 8.0), (-1.0, 8.0)])
