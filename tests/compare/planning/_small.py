"""A workload of milliseconds whose layers differ in how much rounding hurts them, and a scorer that tries each."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mixprec.compare import Workload, WorkloadSource
from mixprec.nn import convert
from mixprec.planner import KEEP, Candidate, CandidateScore, GroupScores, Scores
from mixprec.specs import LayerPrecision, Recipe, Rule

CANDIDATES = (
    Candidate(name="fp8", precision=LayerPrecision.uniform("e4m3[tensor]")),
    Candidate(name="fp4", precision=LayerPrecision.uniform("e2m1[tensor]")),
)
SITES = ("first", "second", "head")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x))
        return self.head(hidden + 0.1 * torch.relu(self.second(hidden)))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return (model(x).float() - y).square().mean()


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1000 * seed + step))
    return x, torch.stack([x.sum(1), x.prod(1), x[:, 0] * x[:, 1], x.abs().mean(1)], 1)


def workload(seed: int, device: str, steps: int = 40, **changes: Any) -> Workload:
    settings: dict[str, Any] = {
        "model": Net(),
        "loss": loss,
        "batches": lambda step: batch_of(seed, step),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        "steps": steps,
        "evaluate": lambda model: {"loss": loss(model, batch_of(99, 0)).item()},
    }
    return Workload(**(settings | changes))


def source(**changes: Any) -> WorkloadSource:
    return WorkloadSource(name="small", function=lambda seed, device: workload(seed, device, **changes))


def scorer(model: nn.Module, loss: Any, batches: Sequence[Any], candidates: Sequence[Candidate]) -> Scores:
    """The change of the mean loss with one layer rounded, each tried in turn."""
    started = time.perf_counter()
    plain = _mean_loss(model, loss, batches)
    groups: list[GroupScores] = []
    for site in SITES:
        changes = {KEEP: CandidateScore(loss=0)}
        for candidate in candidates:
            rounded = copy.deepcopy(model)
            convert(rounded, Recipe(name="alone", rules=(Rule(match=site, precision=candidate.precision),)))
            changes[candidate.name] = CandidateScore(loss=max(_mean_loss(rounded, loss, batches) - plain, 0.0))
        groups.append(GroupScores(name=site, sites=(site,), candidates=changes))
    return Scores(
        loss=plain,
        batches=len(batches),
        groups=tuple(groups),
        seconds=time.perf_counter() - started,
        step_seconds=1e-3,
    )


def _mean_loss(model: nn.Module, loss: Any, batches: Sequence[Any]) -> float:
    with torch.no_grad():
        return sum(float(loss(model, batch)) for batch in batches) / len(batches)
