"""A run folder in the terminal, while another process writes it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from mixprec.records import NOTHING, BegunTraining, RecordFollower, last_writer, read_begun

from .._folder import RECORDS
from ._frame import Frame
from ._run_state import RunsState, RunState

_EXPECTED = "expected the run folder of prepare(..., run=...) or of `mixprec compare`"
#: Columns of a pipe or a file, so that a line of a table stays one.
_PIPE = 200
#: Seconds without a record after which a picture says for how long there was none.
_SILENCE = 60.0


def watch(
    run: str | Path,
    *,
    once: bool = False,
    wait: bool = False,
    recipe: str | None = None,
    seed: int | None = None,
    every: float = 1.0,
    console: Console | None = None,
) -> None:
    """Show a run folder until its comparison has ended, or until Ctrl-C.

    Reads only; the process that writes the folder does not notice.

    Args:
        run: the folder.
        once: draw one picture and return; so it is also where the console is no terminal.
        wait: wait for a folder that is not there yet, or has no record yet.
        recipe: show this one's run in full; by default the one that the newest record is of.
        seed: show this one's run in full.
        every: seconds between two looks.
        console: where to draw; standard output by default.

    Raises:
        ValueError: the folder is no run folder, holds no record that can be read (and ``wait`` was not asked for), or
            no run of that recipe and seed; or ``every`` is not above 0.
        OSError: it cannot be read.
        KeyboardInterrupt: Ctrl-C, with the last picture drawn.
    """
    if not every > 0:
        raise ValueError(f"every is {every} s: expected more than 0")
    console = console or Console()
    watched = _Watched(Path(run), recipe, seed, plain=not console.is_terminal)
    watched.look()
    while not watched.has_begun():
        if not wait:
            raise ValueError(watched.why_not_begun())
        time.sleep(every)
        watched.look()
    if once or not console.is_terminal:
        if not console.is_terminal:
            console.width = max(console.width, _PIPE)
        console.print(watched.frame())
        return
    with Live(watched.frame(), console=console, auto_refresh=False) as live:
        while not watched.is_over:
            time.sleep(every)
            watched.look()
            live.update(watched.frame(), refresh=True)


class _Watched:
    """A folder's records so far."""

    def __init__(self, folder: Path, recipe: str | None, seed: int | None, *, plain: bool) -> None:
        if folder.exists() and not folder.is_dir():
            meant = f"did you mean {folder.parent}?" if folder.name == RECORDS else _EXPECTED
            raise ValueError(f"{folder} is a file: {meant}")
        self._folder, self._recipe, self._seed, self._plain = folder, recipe, seed, plain
        self._follower = RecordFollower(folder / RECORDS)
        self.state = RunsState()
        self._begun: BegunTraining | None = None
        self._unread, self._first_reason = 0, ""

    def look(self) -> None:
        """Take in what is new."""
        self._begun = self._begun or read_begun(self._folder)
        followed = self._follower.read()
        if followed.is_anew:
            self.state, self._unread = RunsState(), 0
        for record in followed.records:
            self.state.take(record)
        if followed.left_out and not self._unread:
            self._first_reason = followed.left_out[0].reason
        self._unread += len(followed.left_out)

    @property
    def is_over(self) -> bool:
        """Whether a comparison has ended, or a run of ``mixprec train`` is done; a session does not say so."""
        ends = [run.end for run in self.state.runs.values()]
        is_done = bool(ends) and all(end is not None and end.status == "done" for end in ends)
        return self.state.is_over or (self._begun is not None and is_done)

    def has_begun(self) -> bool:
        """Whether there is a run to show.

        Raises:
            ValueError: nothing that is there can be read.
        """
        if self._unread and not self.state.runs:
            raise ValueError(self._first_reason)
        return bool(self._candidates())

    def why_not_begun(self) -> str:
        """What is missing, and what to do."""
        if self.state.runs:
            runs = ", ".join(f"{recipe} seed {seed}" for recipe, seed in self.state.runs)
            return f"{self._folder} has no run of {self._asked()} yet: it has {runs}; --wait waits for it"
        if not self._folder.exists():
            return f"{self._folder} does not exist: --wait waits for a run that has not begun"
        records = self._folder / RECORDS
        if not records.exists():
            below = sorted(self._folder.glob(f"*/{RECORDS}"))
            meant = f"did you mean {below[0].parent}?" if below else _EXPECTED
            return f"{self._folder} holds no {RECORDS}: {meant}; --wait waits for a run that has not begun"
        return f"{records} holds no complete record of a step yet: --wait waits for a run that has not begun"

    def frame(self) -> Frame:
        """The picture of now."""
        candidates = self._candidates()
        newest = self.state.newest
        shown = newest if newest in candidates else candidates[-1]
        return Frame(
            title=self.state.header.workload if self.state.header else self._begun.title if self._begun else "",
            folder=str(self._folder),
            state=self.state,
            shown=shown,
            steps=self._begun.steps if self._begun else None,
            notes=tuple(self._notes()),
            plain=self._plain,
        )

    def _notes(self) -> list[str]:
        notes = list[str]()
        if self._unread:
            lines = "1 line" if self._unread == 1 else f"{self._unread} lines"
            notes.append(f"{lines} could not be read: {self._first_reason}")
        try:
            silence = time.time() - os.stat(self._folder / RECORDS).st_mtime
        except FileNotFoundError:
            return [*notes, f"{self._folder / RECORDS} is gone: what was read of it is shown"]
        if not self.is_over:
            notes += [f"no new record for {_duration(silence)}"] if silence > _SILENCE else []
            notes += self._gone()
        return notes

    def _gone(self) -> list[str]:
        """That nobody writes the run any more."""
        writer = last_writer(self._folder)
        if writer is None or writer.state not in ("gone", "closed"):
            return []
        how = "ended without a word" if writer.state == "gone" else "closed the run"
        return [f"process {writer.pid} on {writer.host} has {how}: nobody writes it now"]

    def _candidates(self) -> list[RunState]:
        """The runs that were asked for."""
        return [
            run
            for (recipe, seed), run in self.state.runs.items()
            if self._recipe in (None, recipe) and self._seed in (None, seed)
        ]

    def _asked(self) -> str:
        asked = [self._recipe or "", "" if self._seed is None else f"seed {self._seed}"]
        return " ".join(part for part in asked if part) or NOTHING


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
