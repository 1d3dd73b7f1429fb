"""A recorder and the loop that drives it, without a session."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from mixprec.monitor import FlightRecorder, StepFacts


class Driven:
    """A small model with dropout, its recorder, and steps that are told of as a session would."""

    def __init__(self, run: Path, **options: object) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.recorder = FlightRecorder(self.model, run, **{"watch_process": False, **options})
        self.applied = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).square().mean()

    def backward(self, loss: torch.Tensor, name: str = "loss") -> None:
        self.recorder.begin_backward(loss, name, 1.0)
        loss.backward()
        self.recorder.end_backward()

    def step(self, x: torch.Tensor | None = None, *, scale: float = 1.0, factor: float = 1.0, is_finite: bool = True):
        """One step; what the recorder has found."""
        loss = self.forward(torch.ones(2, 4) if x is None else x) * factor
        self.backward(loss)
        norms = {name: float(p.grad.norm()) for name, p in self.model.named_parameters()}
        facts = StepFacts(
            step=self.applied,
            losses=(("loss", loss.item()),),
            grad_norm=sum(n * n for n in norms.values()) ** 0.5,
            norms=norms,
            is_finite=is_finite,
            scale=scale,
            loss_scales={"loss": scale},
            gradients={},
            parameters={},
        )
        self.model.zero_grad()
        if not is_finite:
            return self.recorder.skipped(facts)
        self.applied += 1
        return self.recorder.after_update(facts)
