"""How a run ended: what its last records and the recorder's dumps tell."""

from __future__ import annotations

import math
from dataclasses import replace

from ...records import RESUMED, RecordedStep, RecorderDump
from .._finding import Finding
from ..alarms import Thresholds
from ._contents import OneRun, RunContents
from ._cut_short import cut_short, how_to_go_on

_REPLAY = "`mixprec doctor RUN --workload FILE` replays the step and names the operation"


def ending_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """Crashes, signals, steps that were not finite, and how a comparison's run ended."""
    found: list[Finding] = []
    for path, dump in contents.dumps.items():
        if (dump.recipe, dump.seed) == (run.recipe, run.seed) and not dump.is_ordinary:
            told = _TOLD[dump.reason](dump, str(path), contents)
            found += map(_as_past, told) if _is_past(dump, run, contents) else told
    return [*found, *_ended(run, contents), *cut_short(run, contents)]


def _is_past(dump: RecorderDump, run: OneRun, contents: RunContents) -> bool:
    """Whether another process has resumed the run since, and come further."""
    was_resumed = any(event.name == RESUMED and event.step <= dump.step for event in run.events)
    writer = contents.writer
    is_other = writer is not None and (writer.pid, writer.host) != (dump.pid, dump.host)
    return is_other and was_resumed and bool(run.steps) and run.steps[-1].step > dump.step


def _as_past(finding: Finding) -> Finding:
    message = f"{finding.message}; the run was resumed since, and went on beyond this step"
    return replace(finding, severity="note", message=message)


def _crash(dump: RecorderDump, path: str, contents: RunContents) -> list[Finding]:
    lines = dump.detail.strip().splitlines()
    error = next((line for line in reversed(lines) if line and not line.startswith((" ", "mixprec:"))), "an exception")
    where = next((line.strip() for line in reversed(lines) if line.lstrip().startswith("File ")), "")
    return [
        Finding(
            step=dump.step,
            name="crash",
            severity="fault",
            message=f"the loop was left by an exception: {error[:300]}",
            evidence={"error": error[:300], "where": where, "dump": path, **_batch(dump)},
            threshold="none",
            remedy=f"the traceback is in {path}/dump.json; {_REPLAY}",
        )
    ]


def _signal(dump: RecorderDump, path: str, contents: RunContents) -> list[Finding]:
    if dump.detail != "SIGTERM":
        return []
    return [
        Finding(
            step=dump.step,
            name="terminated",
            severity="note",
            message=f"the process was asked to end (SIGTERM) on {dump.host} at {dump.written}",
            evidence={"dump": path},
            remedy=how_to_go_on(contents),
        )
    ]


def _not_finite(dump: RecorderDump, path: str, contents: RunContents) -> list[Finding]:
    if not dump.steps:
        return []
    last = dump.steps[-1]
    bad = [name for name, norm in last.norms.items() if not math.isfinite(norm)]
    losses = [f"{name} is {_kind(value)}" for name, value in last.losses.items() if not math.isfinite(value)]
    parts = [*losses]
    if bad:
        parts.append(f"the gradients of {len(bad)} of {len(last.norms)} parameters are not finite")
    before = next((step for step in reversed(dump.steps[:-1]) if step.outcome == "applied"), None)
    evidence: dict[str, float | str] = {"dump": path, **_batch(dump)}
    if before is not None and before.losses:
        evidence["loss before"] = next(iter(before.losses.values()))
    if before is not None and before.grad_norm is not None:
        evidence["gradient norm before"] = before.grad_norm
    return [
        Finding(
            step=dump.step,
            name="non-finite step",
            severity="fault",
            site=bad[-1] if bad else "",  # the backward pass begins at the last
            message="; ".join(parts) or dump.detail,
            evidence=evidence,
            threshold="finite",
            remedy=_REPLAY,
        )
    ]


def _request(dump: RecorderDump, path: str, contents: RunContents) -> list[Finding]:
    return []


_TOLD = {"exception": _crash, "signal": _signal, "non-finite": _not_finite, "request": _request}


def _batch(dump: RecorderDump) -> dict[str, float | str]:
    """Which batch it was."""
    step: RecordedStep | None = dump.steps[-1] if dump.steps else None
    if step is None or not step.batches:
        return {}
    last = step.batches[-1]
    shapes = ", ".join(f"{t['place']} {t['dtype']}{list(t['shape'])}" for t in last["tensors"][:3])
    return {"batch": " ".join(filter(None, (last["name"], f"hash {last['hash']}", f"({shapes})" if shapes else "")))}


def _kind(value: float) -> str:
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _ended(run: OneRun, contents: RunContents) -> list[Finding]:
    end = run.end
    if end is None or end.status == "done":
        return []
    step = run.steps[-1].step if run.steps else 0
    lines = end.reason.splitlines()
    return [
        Finding(
            step=step,
            name=f"run {end.status}",
            severity="note" if end.status == "interrupted" else "fault",
            message=lines[0] if lines else f"the run {end.status}",
            evidence={"steps": float(len(run.steps))},
            remedy={"failed": "see the reason; its traceback is among the events", "diverged": _REPLAY}.get(
                end.status, how_to_go_on(contents)
            ),
        )
    ]
