"""Averages of weights: exact in fp32 whatever the weights are kept in, and swapped in and out without a trace."""

from __future__ import annotations

import io

import pytest
import torch
from torch.nn import Parameter

from mixprec.optim import WeightAverage, keep_weights

DECAY = 0.999


@pytest.mark.parametrize("kind", ["master", "split", "kahan"])
def test_the_average_of_16_bit_weights_is_that_of_the_fp32_run(kind: str) -> None:
    p, q = Parameter(torch.ones(4, dtype=torch.bfloat16)), Parameter(torch.ones(4))
    kept, plain = keep_weights(torch.optim.SGD([p], lr=1e-4), kind), torch.optim.SGD([q], lr=1e-4)
    average = WeightAverage({"p": p}, DECAY, full_weight=kept.full_weight)
    expected, decay = torch.ones(4, dtype=torch.float64), DECAY
    for _ in range(200):
        p.grad, q.grad = torch.ones(4), torch.ones(4)
        kept.apply(1.0)
        plain.step()
        average.update()
        expected = decay * expected + (1 - decay) * q.detach().double()
    found = average.state_dict()["averages"]["p"]
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, rtol=1e-5)
    assert found[0] != 1.0
    assert average.updates == 200


def test_it_is_the_formula_bit_for_bit() -> None:
    p = Parameter(torch.randn(64, generator=torch.Generator().manual_seed(0)))
    average = WeightAverage({"p": p}, DECAY)
    start = p.detach().clone()
    with torch.no_grad():
        p.mul_(1.7)
    average.update()
    expected = start + (p.detach() - start) * torch.tensor(1 - DECAY)
    assert torch.equal(average.state_dict()["averages"]["p"], expected)


@pytest.mark.parametrize("kind", ["master", "split", "kahan", "stochastic", "true"])
def test_swapping_in_and_out_leaves_no_trace(kind: str) -> None:
    p, wide = Parameter(torch.ones(8, dtype=torch.bfloat16)), Parameter(torch.ones(8))
    kept = keep_weights(torch.optim.SGD([p, wide], lr=0.3), kind)
    average = WeightAverage({"p": p, "wide": wide}, 0.5, full_weight=kept.full_weight)
    p.grad, wide.grad = torch.full((8,), 0.1), torch.full((8,), 0.1)
    kept.apply(1.0)
    average.update()
    before, full = p.detach().clone(), kept.full_weight(p)
    with average.swapped_in():
        assert torch.equal(p, average.state_dict()["averages"]["p"].bfloat16())
        assert torch.equal(wide, average.state_dict()["averages"]["wide"])
        with pytest.raises(RuntimeError, match="in the model now"):
            average.update()
        with pytest.raises(RuntimeError, match="in the model already"), average.swapped_in():
            pass
    assert torch.equal(p, before)
    assert kept.adopt_writes() == []
    assert torch.equal(kept.full_weight(p), full)


def test_an_error_inside_gives_the_weights_back() -> None:
    p = Parameter(torch.ones(2))
    average = WeightAverage({"p": p}, 0.5)
    with torch.no_grad():
        p.fill_(3.0)
    with pytest.raises(KeyError), average.swapped_in():
        raise KeyError
    assert p.tolist() == [3.0, 3.0]


def test_its_state_continues_it() -> None:
    p = Parameter(torch.ones(3))
    average = WeightAverage({"p": p}, 0.9)
    with torch.no_grad():
        p.fill_(2.0)
    average.update()
    buffer = io.BytesIO()
    torch.save(average.state_dict(), buffer)
    buffer.seek(0)
    other = WeightAverage({"p": p}, 0.5)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for one in (average, other):
        one.update()
    assert torch.equal(*(one.state_dict()["averages"]["p"] for one in (average, other)))
    assert (other.decay, other.updates) == (0.9, 2)
    with pytest.raises(ValueError, match="2 parameters differ, p, q"):
        WeightAverage({"q": p}, 0.5).load_state_dict(average.state_dict())
    with pytest.raises(ValueError, match="got keys"):
        other.load_state_dict({"p": p})


@pytest.mark.parametrize("decay", [-0.1, 1.0, 1.5, float("nan")])
def test_a_decay_out_of_range_is_refused(decay: float) -> None:
    with pytest.raises(ValueError, match="expected 0 or more and below 1"):
        WeightAverage({}, decay)
