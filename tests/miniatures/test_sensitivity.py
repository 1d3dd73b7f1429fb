"""Scores rank layers as quantizing them one at a time does, and the error of the output does not."""

from __future__ import annotations

import pytest

from benchmarks._validity_study import Subject, rank_correlation, study

SUBJECT = Subject(workload="gpt", layers=3, steps=100, at=100, seed=0)


@pytest.mark.slow
def test_scores_rank_layers_and_output_error_does_not():
    found = study(SUBJECT, casts=("mxfp4",))["mxfp4"]
    layers = found["layers"]
    assert len(layers) == 13
    assert rank_correlation(layers, "score", "scored") >= 0.6
    assert rank_correlation(layers, "output_error", "scored") < 0.3
    together = found["all layers"]["scored"]
    assert sum(layer["scored"] for layer in layers) == pytest.approx(together, rel=0.25)
    assert 0.5 <= sum(layer["score"] for layer in layers) / together <= 2
