"""One writer for each run folder."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import socket
import subprocess
import sys
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
    assert last_writer(tmp_path) == (os.getpid(), socket.gethostname())
    (tmp_path / ".lock").write_text("rubbish")
    assert last_writer(tmp_path) is None


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
