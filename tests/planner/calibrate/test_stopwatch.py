"""The stopwatch: seconds at the speed of its reference, whatever the machine does."""

from __future__ import annotations

import pytest

from mixprec.planner.calibrate import Stopwatch


class Machine:
    """A clock that stands still but for what a call tells, at a speed of its own."""

    def __init__(self) -> None:
        self.now, self.speed = 0.0, 1.0

    def __call__(self) -> float:
        self.now += 1e-3 / self.speed  # what lies between two looks at it: the reference's time
        return self.now

    def work(self) -> None:
        self.now += 5e-3 / self.speed


def test_a_slower_machine_tells_the_same_seconds() -> None:
    machine = Machine()
    watch = Stopwatch(samples=3, clock=machine)
    assert watch.reference == pytest.approx(1e-3)
    (before,) = watch.seconds(machine.work)
    machine.speed = 0.4
    (after,) = watch.seconds(machine.work)
    assert before == pytest.approx(6e-3)
    assert after == pytest.approx(before)


def test_a_reference_of_another_time_is_its_speed() -> None:
    machine = Machine()
    (told,) = Stopwatch(samples=3, clock=machine, reference=2e-3).seconds(machine.work)
    assert told == pytest.approx(12e-3)
