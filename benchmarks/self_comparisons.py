"""Recipes compared with themselves: pairs of runs that differ in their rounding seeds alone.

What such a pair differs by is noise, and its true mean is 0. The tests draw from it how often a comparison
resolves a gap that is none, and how often it finds one that was planted.

    python -m benchmarks.self_comparisons tests/compare/self_comparisons.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from mixprec.compare import load_workload
from mixprec.specs import recipe
from mixprec.training import prepare

PAIRS = 12
STEPS = {"gpt": 20, "resnet": 30}
RECIPES = ("nvfp4", "bf16-sr")


def final_loss(workload: str, name: str, seed: int, rounding: int) -> float:
    """The held-out loss of a run, in the recipe's forward pass."""
    built = load_workload(workload, steps=STEPS[workload]).build(seed, "cpu")
    model = built.model.train()
    optimizer = built.optimizer(model.parameters())
    session = prepare(model, optimizer, recipe(name), clip_norm=built.clip_norm, seed=rounding)
    rates = [group["lr"] for group in optimizer.param_groups]
    for step in range(built.steps):
        torch.manual_seed(step)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (built.schedule(step) if built.schedule else 1.0)
        session.step(built.loss(model, built.batches(step)))
    model.eval()
    with torch.no_grad():
        return float(built.evaluate(model)["loss"])


def main(path: Path) -> None:
    """Run them all and write the differences."""
    found = {
        f"{workload} under {name}, {steps} steps": [
            round(final_loss(workload, name, seed, 1000 + seed) - final_loss(workload, name, seed, 2000 + seed), 8)
            for seed in range(PAIRS)
        ]
        for workload, steps in STEPS.items()
        for name in RECIPES
    }
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
