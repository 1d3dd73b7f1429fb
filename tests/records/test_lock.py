"""One writer for each run folder."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mixprec.records import RunLock, last_writer

HOLDER = """
import os, sys, time
from mixprec.records import RunLock

lock = RunLock(sys.argv[1])
print("held", flush=True)
"""


class Holder:
    """A process that holds a folder's lock."""

    def __init__(self, folder: Path, then: str = "time.sleep(60)") -> None:
        command = [sys.executable, "-c", HOLDER + then, str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_a_second_process_is_refused_and_told_by_whom(tmp_path: Path):
    message = f"run folder {tmp_path} is being written by process"
    with Holder(tmp_path) as process, pytest.raises(ValueError, match=message) as told:
        RunLock(tmp_path)
    assert f"process {process.pid} on" in str(told.value)
    RunLock(tmp_path).release()  # killed: no obstacle


def test_within_a_process_it_may_be_taken_again_and_is_held_by_the_last(tmp_path: Path):
    first = RunLock(tmp_path)
    second = RunLock(tmp_path)
    first.release()
    assert is_refused(tmp_path)
    del second
    gc.collect()
    assert not is_refused(tmp_path)


def is_refused(folder: Path) -> bool:
    finished = subprocess.run([sys.executable, "-c", HOLDER, str(folder)], capture_output=True, text=True, check=False)
    return "is being written by process" in finished.stderr


def test_a_forked_child_holds_nothing(tmp_path: Path):
    then = "if os.fork() == 0:\n    time.sleep(5)\ntime.sleep(0.5)\nos._exit(0)"
    with Holder(tmp_path, then) as process:
        process.wait()  # its child lives on
        RunLock(tmp_path).release()
    assert process.returncode == 0


@pytest.mark.parametrize("content", ["", "rubbish", "[]", '{"pid": 1, "host": "elsewhere", "handle": 0}'])
def test_whatever_is_in_an_old_lock_file_is_no_obstacle(tmp_path: Path, content: str):
    (tmp_path / ".lock").write_text(content)
    lock = RunLock(tmp_path)
    assert f'"pid": {os.getpid()}' in (tmp_path / ".lock").read_text()
    lock.release()


def test_who_wrote_last_is_known(tmp_path: Path):
    assert last_writer(tmp_path) is None
    RunLock(tmp_path).release()
    writer = last_writer(tmp_path)
    assert writer is not None
    assert (writer.pid, writer.host, writer.state) == (os.getpid(), socket.gethostname(), "closed")
    (tmp_path / ".lock").write_text("rubbish")
    assert last_writer(tmp_path) is None


def state(folder: Path) -> str:
    writer = last_writer(folder)
    return "" if writer is None else writer.state


def test_a_process_that_is_killed_leaves_the_folder_open(tmp_path: Path):
    with Holder(tmp_path):
        assert state(tmp_path) == "writing"
    assert state(tmp_path) == "gone"
    with Holder(tmp_path, "") as process:  # which ends as processes end
        process.wait()
        assert state(tmp_path) == "closed"
    with Holder(tmp_path, "del lock; time.sleep(60)"):  # collected, and killed then
        assert state(tmp_path) == "closed" or not time.sleep(0.5)
        assert state(tmp_path) == "closed"
    (tmp_path / ".lock").write_text('{"pid": 1, "host": "elsewhere"}')
    assert state(tmp_path) == "unknown"


def test_the_folder_is_closed_when_the_last_lock_of_the_process_is(tmp_path: Path):
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    first.release()
    assert state(tmp_path) == "writing"
    second.release()
    assert state(tmp_path) == "closed"


def test_a_forked_child_closes_nothing(tmp_path: Path):
    then = "if os.fork() == 0:\n    sys.exit()\nos.wait()\nprint('waited', flush=True)\ntime.sleep(60)"
    with Holder(tmp_path, then) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waited\n"
        assert state(tmp_path) == "writing"
    assert state(tmp_path) == "gone"


def test_a_folder_that_was_removed_meanwhile(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = RunLock(folder)
    shutil.rmtree(folder)
    lock.release()
    assert not folder.exists()


def test_a_holder_that_did_not_sign_is_refused_all_the_same(tmp_path: Path):
    handle = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match="is being written by another process"):
        RunLock(tmp_path)
    os.close(handle)


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(handle: int, how: int):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = RunLock(tmp_path)
    assert "file system without locks" in lock.note
    lock.release()


def test_a_folder_that_cannot_be_written_raises(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        RunLock(tmp_path / "missing")
