"""A user's own loop over a torch ``DataLoader`` that knows its position, with shuffling, dropout and epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from mixprec.guard import Guard, Rewind
from mixprec.training import Guarded, Session

from .runs import SETTINGS, begin, loss, weights

EXAMPLES, SIZE = 640, 16
EPOCH = EXAMPLES // SIZE


class Stateful:
    """As torchdata's ``StatefulDataLoader``: the next iterator goes on in the middle of an epoch, in its order."""

    def __init__(self) -> None:
        x = torch.randn(EXAMPLES, 8, generator=torch.Generator().manual_seed(5))
        self._shuffling = torch.Generator().manual_seed(6)
        dataset = TensorDataset(x, torch.arange(EXAMPLES))
        self._loader = DataLoader(dataset, batch_size=SIZE, shuffle=True, generator=self._shuffling)
        self._begun, self._given, self._skip = self._shuffling.get_state(), 0, 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self._begun, skip = self._shuffling.get_state(), self._skip
        self._given, self._skip = skip, 0
        for number, batch in enumerate(self._loader):
            if number >= skip:
                self._given += 1
                yield batch
        self._begun, self._given = self._shuffling.get_state(), 0

    def state_dict(self) -> dict[str, Any]:
        return {"begun": self._begun.clone(), "given": self._given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._shuffling.set_state(state["begun"])
        self._skip = state["given"]


def train(
    settings: Guard, *, bad: Iterable[int] = (), leave_out: Iterable[int] = (), damage_at: int = -1
) -> tuple[Session, Guarded, list[Tensor]]:
    """Three epochs, each a call of ``batches``; which examples were trained on in the end."""
    session, guarded = begin("bf16", settings)
    loader, trained = Stateful(), dict[int, Tensor]()
    spoil: Callable[[int], float] = lambda number: 30.0 if number in set(bad) else 1.0  # noqa: E731
    calls = 0
    for _ in range(3):
        for x, which in guarded.batches(loader, leave_out=leave_out):
            number = guarded._batches.numbers[-1]  # pyright: ignore[reportPrivateUsage]
            assert number is not None
            calls += 1
            if calls == damage_at:
                next(session.model.parameters()).data[0, 0] = torch.inf
            if session.step(loss(session, spoil(number) * x)).applied:
                trained[session.applied] = which
    return session, guarded, [which for _, which in sorted(trained.items())]


def check_same(one: tuple[Session, Guarded, list[Tensor]], other: tuple[Session, Guarded, list[Tensor]]) -> None:
    assert one[0].applied == other[0].applied
    assert all(map(torch.equal, one[2], other[2]))
    assert all(map(torch.equal, weights(one[0]), weights(other[0])))


def test_a_run_that_went_back_is_as_one_that_left_the_batches_out():
    settings = Guard(skip=None, snapshots=SETTINGS.snapshots, rewind=Rewind(batches=4))
    run = train(settings, bad=[EPOCH + 27])
    (incident,) = run[0].incidents
    assert (incident.rung, incident.back_to) == ("rewind", EPOCH + 20)
    assert incident.batches == tuple(range(EPOCH + 24, EPOCH + 28))
    check_same(run, train(settings, leave_out=incident.batches))


def test_damaged_weights_cost_no_batch():
    run = train(SETTINGS, damage_at=EPOCH + 33)
    assert [(one.rung, one.batches) for one in run[0].incidents] == [("rewind", ())]
    check_same(run, train(SETTINGS))


def test_of_an_epoch_the_run_goes_back_to_its_beginning_at_most():
    run = train(SETTINGS, damage_at=2 * EPOCH + 3)
    assert [(one.step, one.back_to) for one in run[0].incidents] == [(2 * EPOCH + 2, 2 * EPOCH)]
    check_same(run, train(SETTINGS))


def test_steps_that_are_left_out_draw_nothing():
    run = train(SETTINGS, bad=[EPOCH + 10, EPOCH + 11])
    (incident,) = run[0].incidents
    assert (incident.rung, incident.batches) == ("skip", (EPOCH + 10, EPOCH + 11))
    check_same(run, train(SETTINGS, leave_out=incident.batches))
