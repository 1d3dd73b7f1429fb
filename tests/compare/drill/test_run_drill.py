"""A drill as a whole, on a workload of milliseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mixprec.compare import Workload
from mixprec.compare.drill import Drill, drilled_json, run_drill
from mixprec.monitor.doctor import diagnose
from mixprec.specs import recipe
from tests.compare.fits import fit, source


def bent(seed: int, device: str, steps: int, **changes: Any) -> Workload:
    """A fit whose units have no upper end, so that a flipped bit shows."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    return fit(seed, device, steps, model=model, **changes)


def drill(function: Any = bent, steps: int = 100, **changes: Any) -> Drill:
    facts: dict[str, Any] = {"source": source(function, steps=steps), "recipe": recipe("bf16")}
    return Drill(**(facts | changes))


@pytest.mark.slow
def test_a_drill_is_seen_told_and_kept(tmp_path: Path):
    told: list[str] = []
    found = run_drill(drill(faults=("bit-flip",), says=told.append), tmp_path / "drill")
    assert found.passed, told
    assert (found.steps, found.recipe, len(found.healthy), len(found.runs)) == (100, "bf16", 3, 3)
    assert [run.detected is not None and run.detected <= 1 for run in found.runs] == [True] * 3
    assert all(run.planted == 42 for run in found.runs)
    assert told[-1].startswith("9 of 9 runs: bit-flip, seed 2, under guard: seen after ")
    kept = json.loads((tmp_path / "drill" / "drill.json").read_text())
    assert kept == json.loads(drilled_json(found))
    assert kept["passed"] is True
    assert kept["runs"][0]["loss_without_guard"] is None
    assert not diagnose(tmp_path / "drill" / found.healthy[0].folder).faults


def test_what_cannot_be_planted_is_left_out_and_what_was_asked_for_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"fault inf-moment cannot be planted: the optimizer \(SGD\) keeps no moments"):
        run_drill(drill(faults=("inf-moment",)), tmp_path / "drill")
    assert not (tmp_path / "drill").exists()


def test_mistakes_are_told_before_anything_is_trained(tmp_path: Path):
    with pytest.raises(ValueError, match="fit takes 60 steps, a drill needs 100: faults begin after two fifths"):
        run_drill(drill(steps=60), tmp_path / "drill")
    with pytest.raises(ValueError, match="unknown fault 'bit-flop': expected one of learning-rate, "):
        run_drill(drill(faults=("bit-flop",)), tmp_path / "drill")
    (tmp_path / "drill").mkdir()
    (tmp_path / "drill" / "x").touch()
    with pytest.raises(ValueError, match="is there already: a drill needs a new folder"):
        run_drill(drill(), tmp_path / "drill")
    with pytest.raises(ValueError, match="expected at least 3 different ones"):
        drill(seeds=(0, 1))
    with pytest.raises(ValueError, match="expected at least 3 different ones"):
        drill(seeds=(0, 1, 1))
    with pytest.raises(ValueError, match="fault bit-flip is asked for more than once"):
        drill(faults=("bit-flip", "bit-flip"))


def test_a_workload_that_does_not_train_is_told(tmp_path: Path):
    def broken(seed: int, device: str, steps: int) -> Workload:
        return bent(seed, device, steps, optimizer=lambda p: torch.optim.SGD(p, lr=1e30))

    with pytest.raises(ValueError, match="the loss was"):
        run_drill(drill(broken, faults=("fp4-site",)), tmp_path / "drill")
