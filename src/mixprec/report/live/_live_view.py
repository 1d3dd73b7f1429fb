"""A loop's own live view: an exporter that draws."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mixprec.records import FindingRecord, IncidentRecord, IncidentTally, Record, StepRecord, incident_text

from ._frame import Frame
from ._run_state import RunsState


class LiveView:
    """Shows a run in the terminal as its records come; in a pipe or a file, a line for each finding and incident.

    Takes records as any exporter does (``take``, ``close``), or a loop's own numbers by ``step``. What the loop prints
    appears above the picture. After ``close`` the last picture stays.

    Args:
        title: shown first.
        recipe: of the steps that are told by ``step``.
        seed: of them.
        steps: of the whole run, where they are known.
        console: where to draw; standard error by default, so that standard output stays the program's.
        every: seconds between two pictures at least.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> with LiveView("my loop", console=Console(file=out, width=80)) as view:
        ...     for loss in (2.5, 2.25):
        ...         view.step(loss, grad_norm=0.5)
        >>> "step 2" in out.getvalue() and "2.2500" in out.getvalue()
        True
    """

    def __init__(
        self,
        title: str = "training",
        *,
        recipe: str = "fp32",
        seed: int = 0,
        steps: int | None = None,
        console: Console | None = None,
        every: float = 0.25,
    ) -> None:
        self._title, self._recipe, self._seed, self._every = title, recipe, seed, every
        self._console = console or Console(stderr=True)
        self._state, self._steps = RunsState(), steps
        self._incidents = IncidentTally()
        self._live: Live | None = None
        self._drawn, self._stepped, self._is_open = 0.0, time.perf_counter(), True

    def take(self, record: Record) -> None:
        """Take in one record."""
        self._state.take(record)
        if not self._console.is_terminal:
            if isinstance(record, FindingRecord):
                self._console.print(Text(f"step {record.step}: {record.severity}: {record.name}: {record.message}"))
            elif isinstance(record, IncidentRecord) and self._incidents.take(record).is_news:
                self._console.print(Text(f"step {record.step}: {incident_text(record)}"), soft_wrap=True)
        elif time.perf_counter() - self._drawn >= self._every:
            self._draw()

    def step(
        self,
        loss: float,
        *,
        grad_norm: float | None = None,
        loss_scale: float | None = None,
        applied: bool = True,
        tokens: int | None = None,
    ) -> None:
        """One step of a loop that makes no records of its own; its time is that since the last one.

        Args:
            loss: of the step, as a number.
            grad_norm: unscaled, before clipping, where it was taken.
            loss_scale: that the step ran under, if any.
            applied: False for a skipped step.
            tokens: tokens or samples in the step.
        """
        now = time.perf_counter()
        seconds, self._stepped = now - self._stepped, now
        run = self._state.runs.get((self._recipe, self._seed))
        self.take(
            StepRecord(
                recipe=self._recipe,
                seed=self._seed,
                step=0 if run is None else run.applied,
                loss=float(loss),
                seconds=seconds,
                applied=applied,
                grad_norm=grad_norm,
                loss_scale=loss_scale,
                tokens=tokens,
            )
        )

    def close(self) -> None:
        """Draw the last picture and give the terminal back; a second call does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        shown = self._state.newest
        if self._live is not None:
            self._draw()
            self._live.stop()
        elif shown is not None:
            self._console.print(self._frame())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self) -> None:
        if self._state.newest is None:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(self._frame(), refresh=True)
        self._drawn = time.perf_counter()

    def _frame(self) -> Frame:
        shown = self._state.newest
        assert shown is not None, "a picture is drawn of a run that has records"
        plain = not self._console.is_terminal
        return Frame(title=self._title, state=self._state, shown=shown, steps=self._steps, plain=plain)
