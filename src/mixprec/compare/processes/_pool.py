"""Several runs at once, each in a process of its own; what they measure comes back as one stream of records."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol

from mixprec.records import BESIDE, EventRecord, Record, RunEndRecord

from ._child import Child, stop

_PAUSE = 0.02


class Job(Protocol):
    """A run that a process does."""

    @property
    def recipe(self) -> str:
        """The recipe's name."""
        ...

    @property
    def seed(self) -> int:
        """The seed."""
        ...

    def start(self) -> Child:
        """Start the process."""
        ...

    def news(self) -> Iterable[Record]:
        """What it has measured since the last call, while it runs or once it has ended."""
        ...

    def stopped(self) -> Iterable[Record]:
        """What is left to tell of a process that was stopped before its end."""
        ...

    def end(self, child: Child, status: int) -> Iterable[Record]:
        """What is left to tell once it has ended; a ``RunEndRecord`` last."""
        ...


class _Running:
    """A job at work, and the most others that were beside it."""

    def __init__(self, job: Job, child: Child) -> None:
        self.job, self.child, self.beside = job, child, 0

    def told(self) -> Iterator[Record]:
        """Say that its times are no measure, where others ran at the same time."""
        if self.beside:
            yield EventRecord(
                recipe=self.job.recipe,
                seed=self.job.seed,
                step=0,
                name=BESIDE,
                site="",
                message=f"ran beside up to {self.beside} other {'run' if self.beside == 1 else 'runs'} (--jobs): its "
                "times are not comparable",
            )

    def interrupted(self) -> RunEndRecord:
        return RunEndRecord(
            recipe=self.job.recipe, seed=self.job.seed, status="interrupted", reason="stopped by the user"
        )


def run_jobs(jobs: Iterable[Job], slots: int, check: Callable[[], None] = lambda: None) -> Generator[Record]:
    """Run jobs, so many at once, and yield what each measures.

    The next job is asked for only when there is room for it, so that a plan may decide on it by what came before.
    Ctrl-C stops the processes and yields what they had measured before it goes on; closing the stream stops them too.
    A process that cannot be started ends its run as ``failed``; the others go on.

    Args:
        jobs: in the order of their start.
        slots: at most so many processes at once.
        check: raises a Ctrl-C that something else has swallowed.
    """
    waiting, running = iter(jobs), list[_Running]()
    try:
        while True:
            yield from _fill(waiting, running, slots)
            if not running:
                return
            yield from _look(running)
            check()
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        stop(one.child for one in running)
        for one in running:
            yield from one.told()
            yield from one.job.stopped()
            yield one.interrupted()
        raise
    finally:
        stop(one.child for one in running)


def _fill(waiting: Iterator[Job], running: list[_Running], slots: int) -> Iterator[Record]:
    while len(running) < slots:
        job = next(waiting, None)
        if job is None:
            return
        try:
            child = job.start()
        except OSError as error:
            reason = f"it could not be started: {error}"
            yield RunEndRecord(recipe=job.recipe, seed=job.seed, status="failed", reason=reason)
            continue
        running.append(_Running(job, child))
        for one in running:
            one.beside = max(one.beside, len(running) - 1)


def _look(running: list[_Running]) -> Iterator[Record]:
    for one in list(running):
        status = one.child.poll()  # before the news, so that nothing is written after they are read
        yield from one.job.news()
        if status is not None:
            running.remove(one)
            yield from one.told()
            yield from one.job.end(one.child, status)
