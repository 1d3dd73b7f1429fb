"""How ``session-version-1.pt`` was written, by mixprec before states had a schema: ``python write_version_1.py FILE``.

It holds what ``state_dict()`` of model, optimizer and session gave after four iterations, the second of which
overflowed, and the masters after two more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

from mixprec.specs import LayerPrecision, LossScale, Recipe, Rule
from mixprec.training import Session, prepare

SCALE = LossScale(kind="dynamic", initial=2.0**8, interval=3)

DELAYED = "e4m3[tensor] delayed(16)"
PRECISION = LayerPrecision.of(input=DELAYED, weight=DELAYED, grad_output="e5m2[tensor] sr")
RECIPE = Recipe(name="mine", rules=(Rule(precision=PRECISION),), loss_scale=SCALE)


def build() -> Session:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return prepare(model, optimizer, RECIPE, seed=3)


def run(session: Session, iterations: range) -> None:
    for i in iterations:
        x = torch.linspace(-1, 1, 16).reshape(4, 4) + 0.1 * i
        loss = session.model(x).float().square().mean()
        session.step(loss * float("inf") if i == 1 else loss)


def write(file: Path) -> None:
    session = build()
    run(session, range(4))
    parts = {"model": session.model, "optimizer": session.optimizer, "session": session}
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save(states, file)
    run(session, range(4, 6))
    states = torch.load(file, weights_only=True)
    torch.save(states | {"masters after two more": session.state_dict()["masters"]}, file)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
