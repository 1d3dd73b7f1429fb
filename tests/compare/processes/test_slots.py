from __future__ import annotations

import pytest

from mixprec.compare.processes import _slots
from mixprec.compare.processes._slots import child_environment, cores, free_memory, slots_by_cores, slots_of
from tests.compare import fits


def test_there_are_never_more_slots_than_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_slots, "cores", lambda: 8)
    assert (slots_by_cores("auto", 100), slots_by_cores("auto", 3), slots_by_cores(5, 100)) == (8, 3, 5)


def test_auto_keeps_to_the_memory_that_the_largest_run_is_forecast_to_need(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_slots, "cores", lambda: 16)
    monkeypatch.setattr(_slots, "process_bytes", lambda: 1_000_000_000)
    comparison = fits.comparison("fp32", "bf16", seeds=(0, 1, 2))
    # Of 4 GB, 3.2 GB may be used: three processes of 1 GB, for the model itself is tiny.
    monkeypatch.setattr(_slots, "free_memory", lambda: 4_000_000_000)
    assert slots_of(comparison, "auto") == 3
    monkeypatch.setattr(_slots, "free_memory", lambda: 1_000_000)
    assert slots_of(comparison, "auto") == 1
    assert slots_of(comparison, 4) == 4  # who names a number gets it


def test_cores_are_shared_unless_the_user_says_how(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_slots, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert child_environment(4)["OMP_NUM_THREADS"] == "2"
    assert "OMP_NUM_THREADS" not in child_environment(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert child_environment(4)["OMP_NUM_THREADS"] == "3"


def test_the_machine_has_cores_and_memory():
    assert cores() >= 1
    assert free_memory() > 10_000_000
