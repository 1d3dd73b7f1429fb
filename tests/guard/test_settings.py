"""Settings that contradict one another are refused in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mixprec.guard import Clip, Escalate, Guard, Rewind, Scale, Skip, Snapshots


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Guard(rewind=None), "escalate goes back to a snapshot, and rewind is off"),
        (lambda: Guard(rewind=Rewind(window=5)), "its limit is never reached"),
        (
            lambda: Guard(dry_run=True, scale=None, skip=None, rewind=None, escalate=None),
            "every rung is off: set one, or no dry_run",
        ),
        (lambda: Skip(limit=0), "Skip: limit is 0: expected a whole number from 1 on"),
        (lambda: Rewind(batches=-1), "batches is -1"),
        (lambda: Scale(factor=0.3), "expected a power of two below 1"),
        (lambda: Clip(decay=1.0), "expected a number between 0 and 1"),
        (lambda: Clip(z=float("nan")), "z is nan"),
        (lambda: Escalate(most_sites=1.5), "most_sites is 1.5"),  # type: ignore[arg-type]
        (lambda: Snapshots(in_memory=1), "in_memory is 1: expected a whole number from 2 on"),
        (lambda: Guard(gap=-1.0), "gap is -1.0"),
        (lambda: Guard(gap_is_relative=True), "there is no gap"),
        (lambda: Snapshots(every=5, quiet=100, in_memory=2), "it is gone after 5"),
        (lambda: Clip(decay="a"), "decay is 'a'"),  # type: ignore[arg-type]
        (lambda: Scale(factor="x"), "factor is 'x'"),  # type: ignore[arg-type]
    ],
)
def test_a_contradiction_is_refused(make: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_setting_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="skip is 3, expected a Skip or None"):
        Guard(skip=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dry_run is 'yes', expected True or False"):
        Guard(dry_run="yes")  # type: ignore[arg-type]


def test_rungs_are_told_in_order():
    assert Guard().rungs == ("scale", "skip", "rewind", "escalate", "stop")
    assert Guard(clip=Clip(), escalate=None, stops=False).rungs == ("clip", "scale", "skip", "rewind")
