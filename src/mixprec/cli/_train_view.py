"""A training run as it goes on: a picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from mixprec.records import (
    EvaluationRecord,
    FindingRecord,
    IncidentRecord,
    IncidentTally,
    Record,
    StepRecord,
    incident_text,
)
from mixprec.report.live import LiveView

#: Seconds from one plain line of progress to the next.
_EVERY = 10.0


class TrainView:
    """Shows a run on stderr, so that stdout holds the outcome alone; an exporter.

    Args:
        title: of the workload.
        steps: of the run, where they are known before it begins.
        console: where to draw; standard error by default.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        title: str,
        steps: int | None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(file=sys.stderr)
        self._steps, self._clock, self._told = steps, clock, -float("inf")
        self._incidents = IncidentTally()
        self._picture = LiveView(title, steps=steps, console=self._console) if self._console.is_terminal else None

    def take(self, record: Record) -> None:
        """Take in one record."""
        if self._picture is not None:
            self._picture.take(record)
            return
        match record:
            case StepRecord() if self._clock() - self._told >= _EVERY:
                self._told = self._clock()
                self._line(_step_text(record, self._steps))
            case EvaluationRecord() if "loss" in record.metrics:
                where = (
                    "in the recipe's forward pass" if record.forward == "recipe" else "with the same weights in fp32"
                )
                self._line(f"step {record.step}: evaluation's loss {record.metrics['loss']:.4f} {where}")
            case FindingRecord() if record.severity != "note":
                self._line(f"step {record.step}: {record.severity}: {record.name}: {record.message}")
            case IncidentRecord() if self._incidents.take(record).is_news:
                self._line(f"step {record.step}: {incident_text(record)}")
            case _:
                pass

    def say(self, sentence: str) -> None:
        """Tell a sentence, above the picture where there is one."""
        self._line(sentence)

    def close(self) -> None:
        """Leave the last picture, and give the terminal back."""
        if self._picture is not None:
            self._picture.close()

    def _line(self, text: str) -> None:
        clock = "" if self._console.is_terminal else time.strftime("%H:%M:%S ")
        self._console.print(Text(clock + text), soft_wrap=True)


def tell_signal(name: str) -> None:
    """Say that the step is let end; a signal's handler may use no stream that the program is writing to."""
    os.write(2, f"\nmixprec: {name}: the step is finished and saved; once more ends the run at once\n".encode())


def _step_text(record: StepRecord, steps: int | None) -> str:
    loss = "" if record.loss is None else f": loss {record.loss:.4f}"
    of = "" if steps is None else f" of {steps}"
    speed = "" if not record.seconds > 0 else f", {1 / record.seconds:.3g} steps/s"
    return f"step {record.step + 1}{of}{loss}{speed}" + ("" if record.applied else ", skipped")
