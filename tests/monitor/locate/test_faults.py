from __future__ import annotations

import warnings

import pytest

from .faults import FAULTS, healthy, is_right, outcome
from .models import JOBS

FLOATING = ("resnet", "lstm")
PAIRS = [(m, k) for m in JOBS for k in FAULTS if k != "bad batch" or m in FLOATING]
#: 210 faults, the share that must be named right (site and cause), and as many healthy runs.
SEEDS, SHARE, HEALTHY = 7, 0.95, 50


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_is_named(kind: str):
    for model in ("lstm",) if kind == "bad batch" else ("gpt", "resnet"):
        planted, found, reason = outcome(model, kind, 100)
        assert is_right(planted, found), f"{model}: {planted.sites} {planted.causes}, found {found}"
        assert found.site in reason or found.is_of_loss


@pytest.mark.slow
def test_most_of_two_hundred_planted_faults_are_named():
    wrong = []
    for model, kind in PAIRS:
        for seed in range(SEEDS):
            planted, found, _ = outcome(model, kind, seed)
            if not is_right(planted, found):
                wrong.append(f"{model}, {kind}, {seed}: {planted.sites} {planted.causes}, found {found}")
    total = len(PAIRS) * SEEDS
    assert total >= 200
    assert len(wrong) <= (1 - SHARE) * total, "\n".join(wrong)


def test_a_scale_that_finds_its_level_is_no_fault():
    told = [line for model in ("gpt", "resnet", "lstm") for line in healthy(model, 1)]
    assert told
    assert all(line.startswith("note: ") and "nothing is wrong" in line for line in told)


@pytest.mark.slow
def test_two_hundred_healthy_runs_have_no_false_cause():
    with warnings.catch_warnings():
        told = [line for model in JOBS for seed in range(HEALTHY) for line in healthy(model, seed, steps=5)]
    assert len(told) >= 200
    assert [line for line in told if not line.startswith("note: ")] == []
