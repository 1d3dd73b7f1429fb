"""Alarms on recorded curves: 28 runs (a small GPT, a small ResNet; 14 seeds), each once clean and with four faults.

Every curve is 160 ordinary steps, then 80 with the fault: one batch or three of random data, the learning rate ten
times as large for 20 steps or a hundred times for one. The thresholds were chosen on seeds 0 to 5; seeds 6 to 13 were
recorded afterwards.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mixprec.monitor import Alarms

AT = 160
FILE = Path(__file__).parent / "curves.json.gz"
CHOSEN_ON = range(6)
#: Within how many steps of the fault an alarm counts as in time.
IN_TIME = {"bad batch": 0, "bad batches": 0, "lr x100 once": 1, "lr x10": 10}


@cache
def runs() -> list[dict[str, Any]]:
    return json.loads(gzip.decompress(FILE.read_bytes()))


def alarm_steps(run: dict[str, Any], fault: str) -> list[int]:
    alarms, found = Alarms(), list[int]()
    losses = run["head"]["loss"] + run["tails"][fault]["loss"]
    norms = run["head"]["norm"] + run["tails"][fault]["norm"]
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
        found += [f.step for f in alarms.step(step=step, loss=loss, grad_norm=norm)]
    return found


def test_all_runs_are_there():
    assert len(runs()) == 28
    assert {len(run["tails"]) for run in runs()} == {5}


def test_clean_runs_raise_no_alarm():
    assert {(run["workload"], run["seed"]): alarm_steps(run, "clean") for run in runs()} == {
        (run["workload"], run["seed"]): [] for run in runs()
    }


@pytest.mark.parametrize("fault", IN_TIME)
def test_no_alarm_comes_before_the_fault(fault: str):
    assert min(step for run in runs() for step in alarm_steps(run, fault)) >= AT


@pytest.mark.parametrize(("fault", "late"), [("bad batch", 0), ("bad batches", 0), ("lr x100 once", 0), ("lr x10", 1)])
def test_faults_are_found_in_time(fault: str, late: int):
    delays = [alarm_steps(run, fault)[0] - AT for run in runs()]
    assert sum(delay > IN_TIME[fault] for delay in delays) == late


def test_seeds_that_chose_no_threshold_fare_as_well():
    held_out = [run for run in runs() if run["seed"] not in CHOSEN_ON]
    in_time = [alarm_steps(run, f)[0] - AT <= n for run in held_out for f, n in IN_TIME.items()]
    assert (sum(in_time), len(in_time)) == (63, 64)
