"""One run of a drill: with or without a fault and a guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixprec.compare import Training, Workload, train
from mixprec.compare.drill import FAULTS
from mixprec.compare.drill._no_fault import NoFault
from mixprec.compare.drill._planted_batches import PlantedBatches
from mixprec.compare.drill._rehearse import Rehearsal, rehearse
from mixprec.guard import Guard
from mixprec.records import EvaluationRecord, IncidentRecord, RunEndRecord, StepRecord, read_records
from mixprec.specs import recipe
from tests.compare.fits import batch_of, fit, loss, source


def bent(seed: int, device: str, steps: int) -> Workload:
    """A fit whose units have no upper end, so that a flipped bit shows."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    return fit(seed, device, steps, model=model)


def rehearsal(tmp_path: Path, **changes: Any) -> Rehearsal:
    facts: dict[str, Any] = {
        "source": source(fit, steps=20),
        "recipe": recipe("bf16"),
        "seed": 0,
        "device": "cpu",
        "guard": None,
        "fault": NoFault(),
        "out": tmp_path,
        "folder": "run",
    }
    return Rehearsal(**(facts | changes))


def losses(folder: Path) -> list[float | None]:
    return [record.loss for record in read_records(folder / "records.jsonl") if isinstance(record, StepRecord)]


def test_a_run_without_fault_and_guard_is_that_of_mixprec_train(tmp_path: Path):
    state = torch.random.get_rng_state()
    made = rehearse(rehearsal(tmp_path))
    assert torch.equal(state, torch.random.get_rng_state())
    trained = train(Training(source=source(fit, steps=20), recipe=recipe("bf16")), tmp_path / "trained")
    assert losses(tmp_path / "run") == losses(tmp_path / "trained")
    assert made.losses == {forward: metrics["loss"] for forward, metrics in trained.metrics.items()}
    assert (made.calls, made.applied, made.planted, made.ended, made.incidents) == (20, 20, None, "", ())
    records = list(read_records(tmp_path / "run" / "records.jsonl"))
    assert len([record for record in records if isinstance(record, EvaluationRecord)]) == 2
    assert isinstance(records[-1], RunEndRecord)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_a_run_from_its_own_step_on(tmp_path: Path, name: str):
    settings = {"momentum": 0.9} if name == "inf-moment" else {}

    def job(seed: int, device: str, steps: int) -> Workload:
        return fit(seed, device, steps, optimizer=lambda p: torch.optim.SGD(p, lr=0.05, **settings))

    where = {"site": "hidden"} if name in ("fp4-site", "frozen-scale") else {}
    shared = {"source": source(job, steps=20)}
    rehearse(rehearsal(tmp_path, folder="without", **shared))
    made = rehearse(rehearsal(tmp_path, fault=FAULTS[name](at=8, **where), **shared))
    assert made.planted == 8
    first = {"learning-rate": 9, "inf-moment": 9, "frozen-scale": 8}.get(name, 8)
    with_fault, without = losses(tmp_path / "run"), losses(tmp_path / "without")
    assert with_fault[:first] == without[:first]
    assert with_fault[first] != without[first]


def test_rates_of_a_workload_without_a_schedule_are_ten_times_as_high_and_no_more(tmp_path: Path):
    rates: list[float] = []

    class Noting(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    def job(seed: int, device: str, steps: int) -> Workload:
        return fit(seed, device, steps, optimizer=lambda p: Noting(p, lr=1e-4))

    rehearse(rehearsal(tmp_path, fault=FAULTS["learning-rate"](at=8, steps=3), source=source(job, steps=20)))
    assert rates == [1e-4] * 8 + [pytest.approx(1e-3)] * 3 + [1e-4] * 9


def test_a_run_that_cannot_go_on_ends(tmp_path: Path):
    made = rehearse(rehearsal(tmp_path, fault=FAULTS["bit-flip"](at=3), source=source(bent, steps=20)))
    assert made.ended.startswith("50 steps were skipped one after another: ")
    assert (made.applied, made.calls, made.losses) == (3, 53, {})


def test_under_guard_a_flipped_bit_is_seen_at_once_and_nothing_is_lost(tmp_path: Path):
    shared = {"source": source(bent, steps=60), "guard": Guard()}
    without = rehearse(rehearsal(tmp_path, folder="without", **shared))
    assert without.incidents == ()
    made = rehearse(rehearsal(tmp_path, fault=FAULTS["bit-flip"](at=45), **shared))
    assert (made.planted, made.seen, made.ended) == (45, (45,), "")
    assert made.losses == without.losses
    assert made.calls > made.applied == 60
    kept = [r for r in read_records(tmp_path / "run" / "records.jsonl") if isinstance(r, IncidentRecord)]
    assert kept[-1] == made.incidents[-1]


def test_an_exception_is_what_the_fault_has_led_to(tmp_path: Path):
    def strict(seed: int, device: str, steps: int) -> Workload:
        def checked(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            if batch[0].abs().max() > 12:
                raise RuntimeError("no such input")
            return loss(model, batch)

        return fit(seed, device, steps, loss=checked)

    fault = FAULTS["poisoned-batches"](at=3)
    made = rehearse(rehearsal(tmp_path, fault=fault, source=source(strict, steps=20)))
    assert (made.ended, made.applied) == ("RuntimeError: no such input", 3)


def test_batches_can_be_sent_back():
    data = PlantedBatches(lambda step: batch_of(0, step), 0, FAULTS["poisoned-batches"](at=1, batches=1))
    given = iter(data)
    first = [next(given)[0] for _ in range(3)]
    state = data.state_dict()
    next(given)
    data.load_state_dict({"index": 1})
    assert torch.equal(next(given)[0], first[1])
    assert data.number == 1
    data.load_state_dict(state)
    assert torch.equal(next(given)[0], batch_of(0, 3)[0])
    assert first[1].std() > 5 > first[0].std()
