from __future__ import annotations

import threading
import time
import warnings

import pytest

from mixprec.monitor.export._hook_queue import HookQueue
from mixprec.records import IncidentRecord
from tests.monitor.export.made_records import incident
from tests.monitor.export.waiting import until


class Hook:
    """Takes incidents once it is let; fails at some."""

    def __init__(self, fails_at: tuple[int, ...] = ()) -> None:
        self.heard, self.open, self._fails_at = list[int](), threading.Event(), fails_at
        self.begun = threading.Event()

    def send(self, record: IncidentRecord) -> None:
        self.begun.set()
        self.open.wait(20)
        if record.number in self._fails_at:
            raise OSError(f"no {record.number}")
        self.heard.append(record.number)


def queue(hook: Hook, *, wait: float = 10.0, places: int = 64, ends: bool = True) -> HookQueue:
    return HookQueue("a hook", hook.send, abort=hook.open.set if ends else lambda: None, wait=wait, places=places)


def test_incidents_are_handed_over_in_their_order_and_close_waits():
    hook = Hook()
    own = queue(hook)
    for number in range(5):
        own.put(incident(number))
    assert hook.heard == []
    hook.open.set()
    own.close()
    own.close()
    assert hook.heard == [0, 1, 2, 3, 4]


def test_a_failure_is_told_once_and_the_next_are_tried():
    hook = Hook(fails_at=(0, 2))
    hook.open.set()
    own = queue(hook)
    own.tell()
    for number in range(3):
        own.put(incident(number))
    assert until(lambda: own._failures == 2)
    with pytest.warns(
        RuntimeWarning, match=r"a hook failed at incident 0 \(no 0\); the next incidents are tried"
    ) as told:
        own.tell()
    own.tell()
    assert len(told) == 1
    with pytest.warns(RuntimeWarning, match=r"a hook: 2 calls failed; the run folder has every incident"):
        own.close()
    assert hook.heard == [1]


def test_a_full_queue_leaves_out_what_comes_and_says_how_many():
    hook = Hook()
    own = queue(hook, places=3)
    own.put(incident(0))
    assert hook.begun.wait(10)
    for number in range(1, 9):
        own.put(incident(number))
    hook.open.set()
    with pytest.warns(RuntimeWarning, match=r"5 records did not reach it, for it was slower than they came"):
        own.close()
    assert hook.heard == [0, 1, 2, 3]


@pytest.mark.parametrize("ends", [True, False])
def test_close_waits_for_a_bounded_time(ends: bool):
    hook = Hook()
    own = queue(hook, wait=0.1, ends=ends)
    for number in range(3):
        own.put(incident(number))
    assert hook.begun.wait(10)
    start = time.monotonic()
    with pytest.warns(RuntimeWarning, match=f"{2 if ends else 3} records did not reach it"):
        own.close()
    assert time.monotonic() - start < 3
    hook.open.set()


def test_what_comes_after_its_end_is_refused():
    own = queue(Hook())
    own.close()
    with pytest.raises(ValueError, match="a hook is closed: incident 7 comes too late"):
        own.put(incident(7))


def test_a_run_without_incidents_has_no_thread():
    threads = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = queue(Hook())
        own.tell()
        assert threading.active_count() == threads
        own.close()
