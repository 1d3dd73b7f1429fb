"""One process of a comparison: started in a group of its own, watched, and stopped with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ._run_place import lock_place, sign_place

STDOUT, STDERR = "stdout.txt", "stderr.txt"
#: Signals to end a process by, and the seconds that each is given.
_PATIENCE = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0))
_TAIL = 1 << 16
_PAUSE = 0.02


class Child:
    """A process whose output goes to files in its folder.

    It has a session of its own: Ctrl-C on the terminal reaches the comparison alone, which then stops its children.

    Args:
        words: the program and its arguments; no shell reads them.
        place: the run's folder, which must exist.
        environment: all of it.
        holds_stdin: whether its standard input stays open as long as this process lives, and ends with it.

    Raises:
        OSError: the program cannot be started, or the folder not be written.
    """

    def __init__(
        self, words: Sequence[str], place: Path, environment: Mapping[str, str], *, holds_stdin: bool = False
    ) -> None:
        self.place, self.started = place, time.perf_counter()
        handle = lock_place(place)
        try:
            with open(place / STDOUT, "wb") as out, open(place / STDERR, "wb") as err:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE if holds_stdin else subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=dict(environment),
                    start_new_session=True,
                    pass_fds=(handle,),
                )
        finally:
            os.close(handle)
        sign_place(place, self._process.pid)

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative for a signal; ``None`` while it runs."""
        status = self._process.poll()
        if status is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return status

    def send(self, number: int) -> None:
        """Send a signal to the process and to all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left
            os.killpg(self._process.pid, number)

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of what it wrote to standard error, without empty lines."""
        try:
            with open(self.place / STDERR, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def how_it_ended(status: int) -> str:
    """An exit status in words.

    Example:
        >>> how_it_ended(3), how_it_ended(-11)
        ('it ended with exit status 3', 'it was killed by SIGSEGV')
        >>> how_it_ended(-9)
        'it was killed by SIGKILL, as the system does where memory runs out'
    """
    if status >= 0:
        return f"it ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    cause = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"it was killed by {name}{cause}"


def stop(children: Iterable[Child]) -> None:
    """Stop processes: they are asked first, then told, then killed. A second Ctrl-C kills at once."""
    alive = [child for child in children if child.poll() is None]
    stopped = list(alive)
    try:
        for number, seconds in _PATIENCE:
            for child in alive:
                child.send(number)
            until = time.perf_counter() + seconds
            while alive and time.perf_counter() < until:
                alive = [child for child in alive if child.poll() is None]
                time.sleep(_PAUSE if alive else 0)
    finally:
        for child in stopped:
            child.send(signal.SIGKILL)  # what it started and left behind
