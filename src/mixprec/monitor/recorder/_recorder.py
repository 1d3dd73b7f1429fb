"""The flight recorder: a bounded ring of steps, written when something goes wrong."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...records import Outcome, Reason, RecorderDump, StatisticsRecord
from .._finding import Finding
from .._random_states import random_states
from .._step_watch import QuietWatch, StepFacts
from ._batch import BatchIdentity
from ._dumps import write_dump
from ._entry import StepEntry
from ._held import HeldBatches
from ._passes import watch_passes
from ._process import ProcessWatch
from ._state import DumpState
from ._streaks import Streaks

_NOTE = "mixprec: the last steps are in "


class FlightRecorder(QuietWatch):
    """Keeps the last steps of a run, and writes them to ``RUN/recorder/`` when something goes wrong.

    Kept of each step: losses, gradient norm and that of each parameter, loss scales, statistics where it was sampled,
    the random states that its first forward pass began with, and of each forward pass what the arguments look like
    (shapes, dtypes, a hash of up to 256 elements of each tensor). The arguments themselves are referred to during
    their step, and written if they are small. Nothing waits for the device but a dump.

    Written on a loss or gradient that is not finite (once for each streak), an exception that leaves the loop or the
    program, SIGUSR1 or SIGTERM, and ``dump()``. A ``StepWatch``: a session tells it of its steps.

    Args:
        model: whose forward passes are seen; in training mode, not compiled.
        run: the run folder.
        recipe: the recipe's name, for those who read a dump.
        seed: the run's, likewise.
        steps: how many are kept.
        dumps: how many stay on disk; the first fault's stays longest.
        batch_bytes: bytes up to which the arguments of the last passes are written.
        watch_process: whether signals and uncaught exceptions are heard (see ``notes``).

    Attributes:
        notes: what of the process is not watched, and why.
        own_seconds: time that the recorder itself has taken, dumps left out [s].

    Raises:
        ValueError: a number below 1 (``batch_bytes``: below 0).

    Example:
        >>> import tempfile
        >>> from mixprec.records import read_dump
        >>> model = nn.Linear(2, 1)
        >>> recorder = FlightRecorder(model, tempfile.mkdtemp(), watch_process=False)
        >>> recorder.batch("shard 3, row 128")
        >>> recorder.begin_backward(model(torch.ones(4, 2)).sum(), "loss", 1.0)
        >>> recorder.end_backward()
        >>> dump = read_dump(recorder.dump("to see what is in it"))
        >>> dump.reason, dump.steps[0].batches[0]["name"], dump.steps[0].outcome
        ('request', 'shard 3, row 128', 'in flight')
        >>> recorder.close()
    """

    def __init__(
        self,
        model: nn.Module,
        run: str | Path,
        *,
        recipe: str = "",
        seed: int = 0,
        steps: int = 64,
        dumps: int = 8,
        batch_bytes: int = 2**24,
        watch_process: bool = True,
    ) -> None:
        for name, value, least in (("steps", steps, 1), ("dumps", dumps, 1), ("batch_bytes", batch_bytes, 0)):
            if isinstance(value, bool) or value < least:
                raise ValueError(f"FlightRecorder: {name} is {value!r}, expected {least} or more")
        self._run, self._recipe, self._seed, self._keep = Path(run), recipe, seed, dumps
        self._ring: deque[StepEntry] = deque(maxlen=steps)
        self._held = HeldBatches(batch_bytes)
        self._entry: StepEntry | None = None
        self._states_of: Callable[[tuple[Any, ...]], dict[str, Any] | None] = _unknown
        self._name = ""
        self._step = 0
        self._in_backward = self._is_writing = False
        self._streaks = Streaks()
        self.own_seconds = 0.0
        self._handles = watch_passes(model, self)
        self._process = ProcessWatch(self) if watch_process else None
        self.notes: tuple[str, ...] = tuple(self._process.notes) if self._process else ()
        self._untold = self.notes
        if self._process is not None:
            weakref.finalize(self, self._process.close).atexit = False

    def batch(self, name: object) -> None:
        """Name the batch of the next forward pass: whatever finds it again, e.g. a shard and a row.

        Args:
            name: kept as its text.
        """
        self._name = str(name)

    def take_states_from(self, states_of: Callable[[tuple[Any, ...]], dict[str, Any] | None]) -> None:
        """Let somebody who looks at each pass before this recorder give the random states that it began with.

        Args:
            states_of: given the arguments of the running pass; ``None`` where it does not know that one.
        """
        self._states_of = states_of

    def begin_pass(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A training pass of the model begins; told by its hook."""
        if self._in_backward:  # a recomputation
            return
        started = time.perf_counter()
        entry = self._current()
        if entry.states is None:
            entry.states = self._states_of(args) or random_states()
        entry.add_batch(BatchIdentity.of(args, kwargs, name=self._name))
        self._held.add(args, kwargs)
        self._name = ""
        self.own_seconds += time.perf_counter() - started

    def note_statistics(self, records: Iterable[StatisticsRecord]) -> None:
        """Statistics of the step that was told of last, or is under way."""
        if self._entry is None and self._ring:
            self._ring[-1].add_statistics(records)
        else:
            self._current().add_statistics(records)

    def begin_backward(self, loss: Tensor, name: str, scale: float) -> None:
        """A loss is about to be backpropagated."""
        self._in_backward = True
        self._current().add_loss(name, loss)

    def end_backward(self) -> None:
        """It was."""
        self._in_backward = False

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The weights have changed."""
        self._end("applied", facts)
        self._step = facts.step + 1
        return (*self._unwatched(facts.step), *self._judge(facts))

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """The gradients are not finite."""
        self._end("skipped", facts)
        return (*self._unwatched(facts.step), *self._judge(facts))

    def dropped(self) -> None:
        """What was backpropagated is thrown away."""
        if self._entry is not None:
            self._entry.outcome = "dropped"
            self._ring.append(self._entry)
        self._entry, self._in_backward = None, False

    def failed(self, error: BaseException) -> None:
        """The loop is left by an exception: its traceback is written, and the exception gets a note that says where."""
        self._in_backward = False
        if not isinstance(error, Exception) or _is_told(error):
            return
        self._current().outcome = "failed"
        detail = "".join(traceback.format_exception(error))
        path = self._try("exception", detail)
        self._ring.append(self._current())
        self._entry = None
        if path is not None:
            error.add_note(f"{_NOTE}{path}: `mixprec doctor {self._run}` reads them")

    def crashed(self, error: BaseException) -> None:
        """An exception has left the program."""
        self.failed(error)

    def signalled(self, name: str) -> None:
        """A signal has come."""
        path = self._try("signal", name)
        if path is not None:
            print(f"mixprec: {name}: the last steps are in {path}", file=sys.stderr)

    def dump(self, reason: str = "") -> Path:
        """Write the last steps now.

        Args:
            reason: why, for those who read it.

        Returns:
            The dump's folder.

        Raises:
            OSError: it cannot be written.
        """
        return self._write("request", reason)

    def close(self) -> None:
        """Take hooks off the model and give signals and the exception hook back; a second call does nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._held.clear()
        if self._process is not None:
            self._process.close()
            self._process = None

    def state_dict(self) -> dict[str, Any]:
        """What decides when the next dump is written, as JSON can hold it; the ring is not in it."""
        return self._streaks.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``."""
        self._streaks.load_state_dict(state)

    def _current(self) -> StepEntry:
        if self._entry is None:
            self._entry = StepEntry(step=self._step)
            self._held.clear()
        return self._entry

    def _end(self, outcome: Outcome, facts: StepFacts) -> None:
        started = time.perf_counter()
        entry = self._following(facts) if self._entry is None else self._entry
        entry.end(outcome, facts)
        self._ring.append(entry)
        self._entry, self._step, self._in_backward = None, facts.step, False
        self.own_seconds += time.perf_counter() - started

    def _following(self, facts: StepFacts) -> StepEntry:
        """The entry of a step that no pass was seen of: an optimizer may step by the passes of another's step."""
        if self._ring and self._ring[-1].goes_on(facts):
            last = self._ring[-1]
            return StepEntry(step=facts.step, states=last.states, batches=last.batches)
        return self._current()

    def _unwatched(self, step: int) -> tuple[Finding, ...]:
        """What of the process is not watched, at the first step."""
        notes, self._untold = self._untold, ()
        return tuple(Finding(step=step, name="recorder", severity="note", message=note) for note in notes)

    def _judge(self, facts: StepFacts) -> tuple[Finding, ...]:
        cause = self._streaks.judge(facts)
        if cause is None:
            return ()
        path = self._try("non-finite", f"{cause.what} is not finite", is_ordinary=cause.is_ordinary)
        return () if cause.is_ordinary else (self._told(facts.step, path),)

    def _told(self, step: int, path: Path | None) -> Finding:
        if path is None:
            return Finding(
                step=step,
                name="recorder dump",
                severity="warning",
                message=f"the last steps could not be written to {self._run}: {self._problem}",
            )
        return Finding(
            step=step,
            name="recorder dump",
            severity="note",
            message=f"the last {len(self._ring)} steps are in {path}",
            evidence={"path": str(path)},
            remedy=f"`mixprec doctor {self._run}` reads them",
        )

    def _try(self, reason: Reason, detail: str, *, is_ordinary: bool = False) -> Path | None:
        """Write where nobody may be disturbed: a full disk must not end a run, nor hide the error that is told of."""
        if self._is_writing:  # a signal in the middle of a dump
            return None
        try:
            return self._write(reason, detail, is_ordinary=is_ordinary)
        except (OSError, RuntimeError) as error:  # RuntimeError: a device that has failed gives nothing back
            self._problem = f"{type(error).__name__}: {error}"
            print(f"mixprec: the last steps could not be written: {self._problem}", file=sys.stderr)
            return None

    def _write(self, reason: Reason, detail: str, *, is_ordinary: bool = False) -> Path:
        entries = [*self._ring, *([] if self._entry is None else [self._entry])][-(self._ring.maxlen or 1) :]
        calls, why = self._held.calls()
        dump = RecorderDump(
            reason=reason,
            detail=detail,
            is_ordinary=is_ordinary,
            step=entries[-1].step if entries else self._step,
            recipe=self._recipe,
            seed=self._seed,
            written=time.strftime("%Y-%m-%d %H:%M:%S"),
            pid=os.getpid(),
            host=socket.gethostname(),
            versions={"torch": torch.__version__, "python": platform.python_version()},
            batch=why,
            steps=tuple(entry.record() for entry in entries),
        )
        states = {i: entry.states for i, entry in enumerate(entries) if entry.states is not None}
        self._is_writing = True
        try:
            return write_dump(self._run, dump, DumpState(random=states, calls=tuple(calls)), keep=self._keep)
        finally:
            self._is_writing = False


def _unknown(args: tuple[Any, ...]) -> None:
    """Nobody looks at passes before the recorder."""


def _is_told(error: BaseException | None) -> bool:
    """Whether a dump was written for an exception, or for one that it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
