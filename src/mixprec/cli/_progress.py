"""Live progress of a comparison."""

from __future__ import annotations

import math
import sys
import time
from enum import Enum
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from mixprec.records import ComparisonRecord, EvaluationRecord, Record, RunEndRecord, StepRecord


class Progress:
    """Shows records as they come: on a terminal a bar per recipe, elsewhere a line per evaluation.

    A bar tells the recipe's seed, step, training loss and speed; the last one counts all steps and tells the time
    left. What is shown goes to stderr, so that stdout holds the table alone.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr)
        self._header: ComparisonRecord | None = None
        # Beside the bar stand some sixty characters at most; a narrow terminal gets a short bar.
        width = min(24, max(6, self._console.width - 66))
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=width),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            _Note(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        self._speed: dict[str, float] = {}
        self._units = _Units.STEPS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    @property
    def started(self) -> bool:
        """Whether anything has been recorded yet."""
        return self._header is not None

    def show(self, record: Record) -> None:
        """Take in one record."""
        match record:
            case ComparisonRecord():
                self._start(record)
            case StepRecord():
                self._step(record)
            case EvaluationRecord() if record.forward == "recipe" and not self._console.is_terminal:
                if self._units is not _Units.RUNS:
                    self._line(f"step {record.step}: loss {record.metrics['loss']:.4f}", record)
            case RunEndRecord():
                self._end(record)
            case _:
                pass

    def _start(self, header: ComparisonRecord) -> None:
        """Begin; or, told of a comparison that adds seeds, count them too (at most: settled recipes have none)."""
        if self._header is not None and self._all is not None:
            added = len(header.seeds) - len(self._header.seeds)
            total = self._bars.tasks[self._all].total or 0
            self._bars.update(self._all, total=total + added * header.steps * len(self._header.recipes))
            self._header = header
            return
        self._header = header
        width = max(map(len, header.recipes))
        self._units = _Units.of(header)
        for name in header.recipes:
            total = self._units.of_recipe(header)
            self._tasks[name] = self._bars.add_task(name.ljust(width), total=total, note="", left=False)
        total = self._units.of_run(header) * len(header.recipes) * len(header.seeds)
        self._all = self._bars.add_task("all".ljust(width), total=total, note="", left=True)
        self._bars.start()

    def _step(self, record: StepRecord) -> None:
        if self._all is None:
            return
        # Averaged over some steps, so that the figure can be read.
        last = self._speed.get(record.recipe, record.seconds)
        self._speed[record.recipe] = seconds = 0.9 * last + 0.1 * record.seconds
        speed = f"{record.tokens / seconds:,.0f} tokens/s" if record.tokens else f"{1 / seconds:.1f} steps/s"
        skipped = "" if record.applied else "  skipped"
        note = f"seed {record.seed}  loss {record.curve_loss:.4f}" + (
            "" if math.isnan(seconds) else f"  {speed}{skipped}"
        )
        self._bars.update(self._tasks[record.recipe], note=note)
        if self._units is _Units.STEPS:
            self._bars.update(self._tasks[record.recipe], completed=record.step + 1)
        elif self._units is _Units.STEPS_OF_ALL_SEEDS:
            self._bars.advance(self._tasks[record.recipe])
        if self._units is not _Units.RUNS:
            self._bars.advance(self._all)

    def _end(self, record: RunEndRecord) -> None:
        if self._units is _Units.RUNS and self._all is not None and record.recipe in self._tasks:
            self._bars.advance(self._tasks[record.recipe])
            self._bars.advance(self._all)
        if record.status == "done" and self._console.is_terminal:
            return
        self._line(record.status + (f": {record.reason}" if record.reason else ""), record)

    def _line(self, text: str, record: EvaluationRecord | RunEndRecord) -> None:
        clock = "" if self._console.is_terminal else time.strftime("%H:%M:%S ")
        self._console.print(Text(f"{clock}{record.recipe} seed {record.seed} {text}"), soft_wrap=True)


class _Units(Enum):
    """What bars count.

    Steps of the seed that runs; of all seeds, where several run at once; runs of a command, whose steps are known only
    when it has ended.
    """

    STEPS = "steps"
    STEPS_OF_ALL_SEEDS = "steps of all seeds"
    RUNS = "runs"

    @classmethod
    def of(cls, header: ComparisonRecord) -> _Units:
        if "command" in header.data:
            return cls.RUNS
        return cls.STEPS_OF_ALL_SEEDS if header.machine.get("jobs", 1) != 1 else cls.STEPS

    def of_run(self, header: ComparisonRecord) -> int:
        return 1 if self is _Units.RUNS else header.steps

    def of_recipe(self, header: ComparisonRecord) -> int:
        return header.steps if self is _Units.STEPS else self.of_run(header) * len(header.seeds)


class _Note(ProgressColumn):
    """What is told of a recipe's run; the time left, on the bar that counts all steps. Cut off, never wrapped."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(no_wrap=True, overflow="ellipsis"))
        self._left = TimeRemainingColumn()

    def render(self, task: Task) -> Text:
        """One line."""
        if not task.fields["left"]:
            return Text(task.fields["note"])
        return Text("time left ") + self._left.render(task)
