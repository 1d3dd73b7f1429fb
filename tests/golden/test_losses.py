"""Losses of a tiny training under each recipe: a change of any number on the way shows here.

Keyed by the hash of the text, for the default text changes with Python's version; for a text that is not known yet the
test says which command writes its losses.
"""

from __future__ import annotations

import hashlib
import json
import pydoc_data.topics
from pathlib import Path

import pytest
import torch

from mixprec import prepare
from mixprec.compare.workloads.gpt import GPTConfig, workload
from mixprec.specs import recipe

GOLDEN = Path(__file__).with_name("losses.json")
RECIPES = ("fp32", "bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4")
CONFIG = GPTConfig(width=32, layers=1, heads=2, context=32, batch=4, steps=6, evaluation_batches=1)
#: A text of our own, the same everywhere.
SYNTHETIC = "".join(f"{i} times {j} is {i * j}.\n" for i in range(60) for j in range(40))


def losses(name: str, text: Path) -> list[float]:
    """The losses of six steps."""
    torch.set_num_threads(1)
    job = workload(0, "cpu", data=text, config=CONFIG)
    optimizer = job.optimizer(job.model.parameters())
    session = prepare(job.model, optimizer, recipe(name, engine="emulated"), clip_norm=job.clip_norm)
    found = []
    for step in range(CONFIG.steps):
        loss = job.loss(job.model, job.batches(step))
        found.append(loss.item())
        session.step(loss)
    return found


def texts() -> dict[str, str]:
    return {"synthetic": SYNTHETIC, "python": "\n".join(pydoc_data.topics.topics.values())}


def key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", ["synthetic", "python"])
def test_losses_are_the_golden_ones(kind: str, name: str, tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    text = texts()[kind]
    if key(text) not in golden:
        assert kind == "python", "the synthetic text changed: python -m tests.golden.test_losses writes its losses"
        pytest.skip("this Python's documentation has no golden losses: python -m tests.golden.test_losses writes them")
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    # Other processors sum in another order; a wrong rounding anywhere moves a loss by more.
    assert losses(name, path) == pytest.approx(golden[key(text)][name], rel=2e-4)


def main() -> None:
    """Write the losses of this machine's texts beside those that are there."""
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    path = Path("golden-text.txt")
    for text in texts().values():
        path.write_text(text, encoding="utf-8")
        golden[key(text)] = {name: losses(name, path) for name in RECIPES}
    path.unlink()
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
