"""Signals and uncaught exceptions: heard, chained, given back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from mixprec.monitor.recorder._process import ProcessWatch
from mixprec.records import find_dumps, read_dump


class Heard:
    def __init__(self):
        self.all = []

    def signalled(self, name):
        self.all.append(name)

    def crashed(self, error):
        self.all.append(error)


@pytest.fixture
def before():
    """Handlers that were there before, and what they heard."""
    heard = []
    old = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    hook = sys.excepthook
    for number in old:
        signal.signal(number, lambda number, frame: heard.append(number))
    sys.excepthook = lambda kind, error, trace: heard.append(error)
    yield heard
    for number, handler in old.items():
        signal.signal(number, handler)
    sys.excepthook = hook


def test_what_was_there_before_follows(before):
    listener = Heard()
    watch = ProcessWatch(listener)
    assert watch.notes == []
    error = ValueError("x")
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGTERM)
    sys.excepthook(ValueError, error, None)
    assert listener.all == ["SIGUSR1", "SIGTERM", error]
    assert before == [signal.SIGUSR1, signal.SIGTERM, error]
    watch.close()


def test_closing_gives_everything_back(before):
    handlers = [signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM), sys.excepthook]
    listener = Heard()
    watch = ProcessWatch(listener)
    watch.close()
    watch.close()
    assert [signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM), sys.excepthook] == handlers


def test_two_watches_close_in_any_order(before):
    first, second = Heard(), Heard()
    watches = ProcessWatch(first), ProcessWatch(second)
    watches[0].close()  # lies below the second: it only goes on
    signal.raise_signal(signal.SIGUSR1)
    sys.excepthook(ValueError, ValueError(), None)
    assert (first.all, second.all[0], len(second.all), len(before)) == ([], "SIGUSR1", 2, 2)
    watches[1].close()


def test_a_listener_that_is_gone_is_not_missed(before):
    watch = ProcessWatch(Heard())
    signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM]
    watch.close()


def test_what_was_ignored_stays_ignored(before):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = Heard()
    watch = ProcessWatch(listener)
    signal.raise_signal(signal.SIGTERM)
    assert listener.all == ["SIGTERM"]
    watch.close()


def test_another_thread_watches_exceptions_alone(before):
    made = []
    listener = Heard()
    thread = threading.Thread(target=lambda: made.append(ProcessWatch(listener)))
    thread.start()
    thread.join()
    assert made[0].notes == ["signals are not watched: only the main thread can"]
    sys.excepthook(ValueError, ValueError(), None)
    assert len(listener.all) == 1
    made[0].close()


PROGRAM = """
import os, signal, sys
import torch
from mixprec.monitor import FlightRecorder

model = torch.nn.Linear(2, 1)
recorder = FlightRecorder(model, sys.argv[1])
model(torch.ones(1, 2))
{end}
"""


def ended(tmp_path, end: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(end=end)
    return subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)


def test_a_terminated_process_dumps_and_ends_by_the_signal(tmp_path):
    end = "signal.raise_signal(signal.SIGUSR1); print('goes on', flush=True); signal.raise_signal(signal.SIGTERM)"
    finished = ended(tmp_path, end)
    assert finished.stdout == "goes on\n"
    assert finished.returncode == -signal.SIGTERM
    dumps = find_dumps(tmp_path)
    assert [read_dump(path).detail for path in dumps] == ["SIGUSR1", "SIGTERM"]
    assert f"mixprec: SIGTERM: the last steps are in {dumps[1]}" in finished.stderr


@pytest.mark.parametrize("hook", ["", "sys.excepthook = lambda *told: print('my own hook', file=sys.stderr)\n"])
def test_an_uncaught_exception_is_dumped(tmp_path, hook):
    """Also where somebody has put a hook of their own on top, which goes on to no other."""
    finished = ended(tmp_path, f"{hook}raise RuntimeError('the loader broke')")
    assert finished.returncode == 1
    (path,) = find_dumps(tmp_path)
    dump = read_dump(path)
    assert dump.reason == "exception"
    assert "the loader broke" in dump.detail
    assert dump.steps[-1].outcome == "failed"
    assert len(dump.steps[-1].batches) == 1
    if not hook:
        assert f"mixprec: the last steps are in {path}" in finished.stderr


def test_a_forked_process_tells_nobody(tmp_path):
    end = "pid = os.fork()\nif pid == 0:\n    raise RuntimeError('a worker')\nos.waitpid(pid, 0)"
    finished = ended(tmp_path, end)
    assert "a worker" in finished.stderr
    assert find_dumps(tmp_path) == []
