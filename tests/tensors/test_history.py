"""Amax histories as values."""

import pytest
import torch

from mixprec.specs import Delayed
from mixprec.tensors import amax_of, new_history, record, roll


def run(delayed: Delayed, passes: list[list[float]]) -> list[float]:
    """The amax that each pass is scaled for, where each pass records some."""
    history, amaxes = new_history(delayed), []
    for pass_ in passes:
        amaxes.append(amax_of(history, delayed).item())
        for amax in pass_:
            history = record(history, torch.tensor(amax))
        history = roll(history)
    return amaxes


def test_the_largest_of_the_passes_that_have_ended() -> None:
    passes = [[1.0], [5.0], [2.0], [3.0], [1.0], [1.0]]
    assert run(Delayed(history=2), passes) == [0.0, 1.0, 5.0, 5.0, 3.0, 3.0]
    assert run(Delayed(history=1), passes) == [0.0, 1.0, 5.0, 2.0, 3.0, 1.0]
    assert run(Delayed(history=1024), passes) == [0.0, 1.0, 5.0, 5.0, 5.0, 5.0]


def test_the_last_pass_alone() -> None:
    passes = [[1.0], [5.0], [2.0], [3.0], [1.0], [1.0]]
    for history in (1, 2, 16):
        assert run(Delayed(history=history, algorithm="recent"), passes) == [0.0, 1.0, 5.0, 2.0, 3.0, 1.0]


def test_of_several_amaxes_of_one_pass_the_largest_counts() -> None:
    assert run(Delayed(history=3), [[1.0, 4.0, 2.0], [], [0.5]]) == [0.0, 4.0, 4.0]


@pytest.mark.parametrize("fault", [float("nan"), float("inf")])
def test_a_fault_is_recorded_as_nothing(fault: float) -> None:
    assert run(Delayed(history=2), [[2.0], [fault], [fault, 1.0], [1.0]]) == [0.0, 2.0, 2.0, 1.0]
    assert run(Delayed(history=2, algorithm="recent"), [[fault], [3.0], [fault], [1.0]]) == [0.0, 0.0, 3.0, 0.0]


def test_a_history_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"history of 'delayed\(4\)' has shape \(4,\), expected \(5,\)"):
        amax_of(torch.zeros(4), Delayed(history=4))


def test_histories_are_values() -> None:
    history = new_history(Delayed(history=3))
    for made in (
        record(history, torch.tensor(2.0)),
        roll(history),
        amax_of(history, Delayed(history=3, algorithm="recent")),
    ):
        made += 1.0
    assert history.tolist() == [0.0] * 4
    assert history.dtype == torch.float32
    loaded = torch.tensor(record(history, torch.tensor(2.0)).tolist())
    assert torch.equal(roll(loaded), roll(record(history, torch.tensor(2.0))))


@pytest.mark.parametrize("algorithm", ["max", "recent"])
def test_everything_compiles_whole(algorithm: str) -> None:
    delayed = Delayed(history=4, algorithm=algorithm)  # type: ignore[arg-type]

    def step(history: torch.Tensor, amax: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return amax_of(history, delayed), roll(record(history, amax))

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    history = torch.rand(5, generator=torch.Generator().manual_seed(0))
    for amax in (torch.tensor(0.7), torch.tensor(float("nan"))):
        for got, right in zip(compiled(history, amax), step(history, amax), strict=True):
            assert torch.equal(got, right)


def test_nothing_waits_for_the_device() -> None:
    """On the meta device, where no number can be read, everything still runs."""
    delayed = Delayed(history=4)
    history = new_history(delayed, device="meta")
    assert roll(record(history, amax_of(history, delayed))).shape == (5,)
