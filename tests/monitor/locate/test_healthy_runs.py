"""Healthy runs whose dynamic loss scale overflows as it is meant to: nothing but notes that say so."""

from __future__ import annotations

import pytest
import torch

import mixprec
from mixprec.specs import LossScale

from .models import SUBJECTS


def findings_of_run(subject_name: str, seed: int, steps: int = 4) -> tuple[int, list[mixprec.monitor.Finding]]:
    """Skipped steps and what was found, of a run that starts with too high a scale, and grows it every second step."""
    subject = SUBJECTS[subject_name](seed)
    start = 2.0 ** (16 + 3 * (seed % 5))
    session = mixprec.prepare(
        subject.model,
        torch.optim.SGD(subject.model.parameters(), lr=1e-3),
        "fp16",
        loss_scale=LossScale(kind="dynamic", initial=start, interval=1, growth=2.0**6, backoff=2.0**-3),
        monitor=mixprec.monitor.Monitoring(every=0, alarms=False),
    )
    for _ in range(steps):
        session.step(subject.loss(session.model(*subject.inputs)))
    found = list(session.findings)
    session.restore()
    return session.skipped, found


@pytest.mark.parametrize("subject", ["gpt", "lstm"])
def test_an_overflow_of_a_probing_scale_is_a_note(subject):
    skipped, found = findings_of_run(subject, seed=4, steps=8)
    assert skipped > 0
    assert found
    for finding in found:
        assert (finding.severity, finding.name) == ("note", "loss scale too high"), str(finding)
        assert "nothing is wrong" in str(finding)


@pytest.mark.slow
def test_no_false_cause_in_200_healthy_runs():
    overflowed = 0
    for seed in range(200):
        skipped, found = findings_of_run(list(SUBJECTS)[seed % len(SUBJECTS)], seed)
        overflowed += skipped > 0
        for finding in found:
            assert (finding.severity, finding.name) == ("note", "loss scale too high"), f"{seed}: {finding}"
    assert overflowed >= 100  # else the runs would show little
