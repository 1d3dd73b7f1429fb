"""Faults planted in a GPT, a ResNet, an LSTM and a Llama of Hugging Face: the right site and cause of each."""

from __future__ import annotations

import pytest

from .models import SUBJECTS
from .planting import KINDS
from .trials import Trial, run_trial

#: Of 200 faults.
EACH = 25


@pytest.mark.parametrize(
    ("kind", "subject"), [(kind, list(SUBJECTS)[i % 3]) for i, kind in enumerate(KINDS)] + [("log of zero", "hf")]
)
def test_site_and_cause_of_a_planted_fault(kind, subject):
    trial = run_trial(kind, subject, seed=0)
    assert trial.site.partition(" (")[0] == trial.planted.site, str(trial)
    assert trial.cause in trial.planted.causes, str(trial)


@pytest.mark.slow
def test_at_least_95_percent_of_200_planted_faults_have_the_right_site_and_cause():
    trials = [
        run_trial(kind, list(SUBJECTS)[(seed + i) % len(SUBJECTS)], seed)
        for i, kind in enumerate(KINDS)
        for seed in range(EACH)
    ]
    wrong = [str(trial) for trial in trials if not trial.is_right]
    assert len(trials) == 200
    assert len(wrong) <= 10, "\n".join(wrong)
    for kind in KINDS:  # none is bought by the others
        of_kind: list[Trial] = [trial for trial in trials if trial.kind == kind]
        assert sum(trial.is_site_right for trial in of_kind) >= EACH - 3, kind
