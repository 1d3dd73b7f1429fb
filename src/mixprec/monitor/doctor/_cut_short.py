"""Runs that nobody ended: killed, or gone with their machine."""

from __future__ import annotations

import math

from ...records import count
from .._finding import Finding
from ._contents import OneRun, RunContents

_ENDINGS = ("exception", "signal")


def cut_short(run: OneRun, contents: RunContents) -> list[Finding]:
    """A run whose process has ended without a word, with its last step.

    Of a session's or a monitor's folder its lock tells, of a comparison's the runs that have no end. One that is still
    being written is none, and what has left a dump behind is told by that.
    """
    writer = contents.writer
    is_whole = writer is None or writer.state != "gone" or _has_dump(run, contents)
    if contents.kind == "comparison":
        is_whole = run.end is not None or writer is None or writer.state not in ("gone", "closed")
    if is_whole or writer is None:
        return []
    last = run.steps[-1] if run.steps else None
    where = "before its first step" if last is None else f"after step {last.step} ({count(len(run.steps), 'step')})"
    evidence: dict[str, float | str] = {"process": f"{writer.pid} on {writer.host}", "since": writer.since}
    if contents.written:
        evidence["last record"] = contents.written
    evidence |= {} if last is None else _told(last.loss)
    return [
        Finding(
            step=0 if last is None else last.step,
            name="run stopped short",
            severity="warning",
            message=f"the records stop {where}, and the run was never closed: its process ended without a word, as by "
            "SIGKILL, for want of memory, or with its machine",
            evidence=evidence,
            threshold="a run folder that its process has closed",
            remedy=f"see whether the system killed it (`dmesg`, the scheduler's log); {how_to_go_on(contents)}",
        )
    ]


def how_to_go_on(contents: RunContents) -> str:
    """From what there is: a comparison's finished runs, a checkpoint, or nothing."""
    if contents.kind == "comparison":
        return "`mixprec compare WORKLOAD --resume RUN` goes on"
    if not contents.is_sessions:
        return "go on from a checkpoint of the loop's own: mixprec.monitor saves none"
    if contents.checkpoint is None:
        return "the run has no checkpoint, so it begins anew; session.save() in the loop makes one to go on from"
    return f"session.resume() goes on from the checkpoint of step {contents.checkpoint}"


def _told(loss: float | None) -> dict[str, float]:
    """The last loss, where somebody told it."""
    return {} if loss is None or math.isnan(loss) else {"last loss": loss}


def _has_dump(run: OneRun, contents: RunContents) -> bool:
    """Whether the recorder has told how the last process ended: not before its last step."""
    writer, last = contents.writer, run.steps[-1].step if run.steps else 0
    return writer is not None and any(
        dump.reason in _ENDINGS and (dump.pid, dump.host) == (writer.pid, writer.host) and dump.step >= last
        for dump in contents.dumps.values()
        if (dump.recipe, dump.seed) == (run.recipe, run.seed)
    )
