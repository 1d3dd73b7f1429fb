"""Incidents to a command of the user's."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from ...records import IncidentRecord, Record, record_line
from ._hook_queue import HookQueue

#: Characters of what a command has written to stderr that are told.
_TOLD = 300


class IncidentCommand:
    """Runs a command for each incident: when it is seen, and again when its outcome is known.

    The command gets the record as one line of JSON on its standard input, and its facts in the environment variables
    ``MIXPREC_INCIDENT_NUMBER``, ``_STEP``, ``_TRIGGER``, ``_SITE``, ``_RUNG`` and ``_OUTCOME``. No shell reads it. Its
    standard output is dropped. It runs beside the training, one at a time; one that hangs is killed with its children
    at its time-out. A failure (a status other than 0, a time-out) is told once as a ``RuntimeWarning``.

    Args:
        command: words of the command, or one text that is split as a shell would.
        timeout: seconds that one run may take; ``close`` waits no longer for all that are left.

    Raises:
        ValueError: no command, quotes that do not close, or a time-out that is not above 0.
        FileNotFoundError: there is no such program; told at once, before training.

    Example:
        >>> exporter = IncidentCommand("notify-send 'mixprec: an incident'")  # doctest: +SKIP
        >>> Monitoring(exporters=(exporter,))  # doctest: +SKIP
    """

    def __init__(self, command: str | Sequence[str], timeout: float = 30.0) -> None:
        self._words = _words(command)
        if not timeout > 0:
            raise ValueError(f"IncidentCommand: timeout is {timeout} s: expected more than 0")
        if shutil.which(self._words[0]) is None:
            raise FileNotFoundError(
                f"IncidentCommand finds no program '{self._words[0]}': expected a path, or a name in PATH"
            )
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._queue = HookQueue("IncidentCommand", self._run, abort=self._abort, wait=timeout)

    def take(self, record: Record) -> None:
        """Have the command run for news of an incident; other records are passed over."""
        self._queue.take(record)

    def close(self) -> None:
        """Wait for what is left, at most a time-out long, and end the rest."""
        self._queue.close()

    def _run(self, incident: IncidentRecord) -> None:
        with tempfile.TemporaryFile() as errors:  # a pipe would be held open by the command's own children
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=os.environ | _facts(incident),
                start_new_session=True,
            )
            try:
                self._process.communicate(record_line(incident).encode(), timeout=self._timeout)
            except subprocess.TimeoutExpired:
                self._abort()
                self._process.wait()
                raise TimeoutError(f"it did not end within {self._timeout:g} s and was killed") from None
            if self._process.returncode:
                raise RuntimeError(_how_ended(self._process.returncode) + _last_words(errors))

    def _abort(self) -> None:
        """Kill the command that runs now, with the processes that it has started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):  # no process groups here, or it has just ended
            process.kill()


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise ValueError(f"IncidentCommand: command {command!r} cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ValueError(f"IncidentCommand: command is {command!r}: expected a program and its arguments")
    return words


def _facts(incident: IncidentRecord) -> dict[str, str]:
    facts = {
        "NUMBER": incident.number,
        "STEP": incident.step,
        "TRIGGER": incident.trigger,
        "SITE": incident.site,
        "RUNG": incident.rung,
        "OUTCOME": incident.outcome,
    }
    return {f"MIXPREC_INCIDENT_{name}": str(value) for name, value in facts.items()}


def _how_ended(status: int) -> str:
    return f"exit status {status}" if status > 0 else f"ended by signal {-status}"


def _last_words(errors: IO[bytes]) -> str:
    """What the command has said last, in one line."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TOLD))
    text = " ".join(errors.read().decode(errors="replace").split())
    return f": {text}" if text else ""
