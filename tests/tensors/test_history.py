"""Amax histories as values."""

import pytest
import torch

from mixprec.specs import Delayed
from mixprec.tensors import amax_of, record, roll


def new_history(delayed: Delayed, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(delayed.history + 1, device=device)


def run(delayed: Delayed, passes: list[list[float]]) -> list[float]:
    """The amax that each pass is scaled for, where each pass records some."""
    history, amaxes = new_history(delayed), []
    for pass_ in passes:
        amaxes.append(amax_of(history, delayed).item())
        for amax in pass_:
            record(history, torch.tensor(amax))
        roll(history)
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
    assert run(Delayed(history=3), [[1.0, 4.0, 2.0], [3.0], [0.5]]) == [0.0, 4.0, 4.0]


def test_a_pass_that_saw_nothing_is_none() -> None:
    """An evaluation, say, or a layer that a batch did not reach: the history stays as it is."""
    assert run(Delayed(history=1), [[4.0], [], [], [1.0], [2.0]]) == [0.0, 4.0, 4.0, 4.0, 1.0]
    assert run(Delayed(history=2, algorithm="recent"), [[4.0], [], [0.0], [1.0], [2.0]]) == [0.0, 4.0, 4.0, 4.0, 1.0]


@pytest.mark.parametrize("fault", [float("nan"), float("inf")])
def test_a_fault_is_recorded_as_nothing(fault: float) -> None:
    assert run(Delayed(history=1), [[2.0], [fault], [fault, 1.0], [3.0]]) == [0.0, 2.0, 2.0, 1.0]
    assert run(Delayed(history=2, algorithm="recent"), [[fault], [3.0], [fault], [1.0]]) == [0.0, 0.0, 3.0, 3.0]


def test_a_history_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"history of 'delayed\(4\)' has shape \(4,\), expected \(5,\)"):
        amax_of(torch.zeros(4), Delayed(history=4))


@pytest.mark.parametrize("algorithm", ["max", "recent"])
def test_everything_compiles_whole(algorithm: str) -> None:
    delayed = Delayed(history=4, algorithm=algorithm)  # type: ignore[arg-type]

    def step(history: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
        before = amax_of(history, delayed)
        record(history, amax)
        roll(history)
        return before

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    history = torch.rand(5, generator=torch.Generator().manual_seed(0))
    other = history.clone()
    for amax in (0.7, float("nan"), 2.0):
        assert torch.equal(compiled(history, torch.tensor(amax)), step(other, torch.tensor(amax)))
        assert torch.equal(history, other)


def test_an_amax_is_no_part_of_its_history() -> None:
    history = torch.tensor([0.0, 1.0, 2.0])
    amaxes = [amax_of(history, Delayed(history=2, algorithm=algorithm)) for algorithm in ("max", "recent")]
    history.fill_(9.0)
    assert [amax.item() for amax in amaxes] == [2.0, 1.0]


def test_nothing_waits_for_the_device() -> None:
    """On the meta device, where no number can be read, everything still runs."""
    delayed = Delayed(history=4)
    history = new_history(delayed, "meta")
    record(history, amax_of(history, delayed))
    roll(history)
    assert history.shape == (5,)
