"""The largest batch that fits, against a search by hand."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from mixprec.planner import largest_batch, predict_memory, resized

from .jobs import JOBS, square

sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))


def test_no_sample_more_fits() -> None:
    model, batch = mlp(), torch.randn(16, 64)
    limit = 4_000_000
    found = largest_batch(model, square, batch, "fp32", limit, optimizer=sgd)
    for samples, fits in ((found.samples, True), (found.samples + 1, False)):
        peak = predict_memory(model, square, torch.empty(samples, 64), "fp32", optimizer=sgd, is_cpu=False).peak
        assert (peak + samples * 64 * 4 <= limit) == fits
    assert found.binds == "saved activations"


def test_monotone_in_memory_and_in_bits() -> None:
    job = JOBS["resnet"]()
    sizes = [largest_batch(*job, "fp32", limit, optimizer=sgd).samples for limit in (2e7, 4e7)]
    assert sizes[0] < sizes[1]
    assert largest_batch(*job, "bf16", 4e7, optimizer=sgd).samples > 1.3 * sizes[-1]


def test_not_even_one_sample() -> None:
    found = largest_batch(mlp(), square, torch.randn(4, 64), "fp32", 100_000, optimizer=sgd)
    assert (found.samples, found.binds) == (0, "weights")
    assert found.peak > 100_000


def test_more_memory_than_anybody_has_samples_for() -> None:
    found = largest_batch(nn.Linear(2, 2), square, torch.randn(4, 2), "fp32", 1e12, optimizer=sgd)
    assert found.samples == 2**24
    assert 2**24 * 8 < found.peak < 1e12


def test_the_largest_model_is_bound_by_bytes_per_parameter() -> None:
    model = mlp()
    found = largest_batch(model, square, torch.randn(4, 64), "fp32", 10_000_000, optimizer=sgd)
    assert found.parameters == pytest.approx(10_000_000 / 12, rel=0.01)  # weight, momentum, gradient


def test_batches_of_any_structure() -> None:
    batch = {"x": torch.arange(6).reshape(3, 2), "more": [torch.arange(3), 0.5]}
    again = resized(batch, 4)
    assert again["x"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert again["more"][0].tolist() == [0, 1, 2, 0]
    assert again["more"][1] == 0.5


def test_batches_without_a_common_dimension() -> None:
    with pytest.raises(ValueError, match=r"shapes \[3, 2\], \[4\], expected one first dimension"):
        resized([torch.zeros(3, 2), torch.zeros(4)], 8)
