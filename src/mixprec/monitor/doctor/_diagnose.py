"""From a run folder to a diagnosis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from ...records import RecorderDump, count
from .._finding import Finding
from ..alarms import Thresholds
from ._contents import OneRun, RunContents, read_run
from ._coverage import coverage_findings
from ._curves import curve_findings
from ._diagnosis import Diagnosed, Diagnosis, DumpSummary
from ._endings import ending_findings
from ._operands import operand_findings
from ._order import in_order
from ._recorded import recorded_findings
from ._rules import goes_with
from ._weights import weight_findings

_Source = Callable[[OneRun, RunContents, Thresholds], list[Finding]]

# What a session says of itself, and what a loop of one's own has instead.
_LOCATES, _REPLAYS = "session.locate() names", "`mixprec doctor RUN --workload FILE` replays the step and names"
#: In this order: of two that found the same, the first one's words stand.
_SOURCES: tuple[_Source, ...] = (
    operand_findings,
    weight_findings,
    recorded_findings,
    curve_findings,
    ending_findings,
    coverage_findings,
)


def diagnose(run: str | Path, *, thresholds: Thresholds | None = None) -> Diagnosis:
    """Say what was wrong with a run, from its folder: of a session, of ``mixprec.monitor``, or of a comparison.

    Reads what can be read, also of a run that was cut off, and tells what was left out. Changes nothing.

    Args:
        run: the folder.
        thresholds: from where on something is told; the defaults are those of a running monitor.

    Raises:
        ValueError: it is no run folder, or nothing in it can be read; the message says why.
        OSError: it cannot be opened.

    Example:
        >>> import tempfile
        >>> from mixprec.records import StepRecord, write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_records(folder / "records.jsonl", (
        ...     StepRecord(recipe="fp16", seed=0, step=0, loss=math.nan, seconds=0.1, applied=False, grad_norm=None,
        ...                loss_scale=2.0**(8 - i), tokens=None) if i else
        ...     StepRecord(recipe="fp16", seed=0, step=0, loss=2.0, seconds=0.1, applied=True, grad_norm=1.0,
        ...                loss_scale=2.0**8, tokens=None)
        ...     for i in range(9)
        ... ))
        >>> [(found.finding.severity, found.finding.name) for found in diagnose(folder).findings]
        [('fault', 'loss not finite'), ('fault', 'steps skipped in a row')]
    """
    contents = read_run(run)
    at = Thresholds() if thresholds is None else thresholds
    found: list[tuple[OneRun, Finding]] = []
    for one in contents.runs:
        found += [
            (one, _fitting(finding, contents, one)) for source in _SOURCES for finding in source(one, contents, at)
        ]
    return Diagnosis(
        path=contents.path,
        kind=contents.kind,
        about=tuple(map(_about, contents.runs)),
        findings=in_order(_merged(found)),
        dumps=tuple(_summary(path, dump) for path, dump in contents.dumps.items()),
        left_out=contents.left_out,
        incidents=tuple(one.incidents[number] for one in contents.runs for number in sorted(one.incidents)),
    )


def _fitting(finding: Finding, contents: RunContents, run: OneRun) -> Finding:
    """Without a rule that does not read, nor a session where there was none: nobody is told to do what fails."""
    if finding.rule and not goes_with(contents.recipes.get(run.recipe), finding.rule):
        finding = replace(finding, rule="")
    if contents.kind == "training" and not contents.is_sessions and _LOCATES in finding.remedy:
        finding = replace(finding, remedy=finding.remedy.replace(_LOCATES, _REPLAYS))
    return finding


def _merged(found: Iterable[tuple[OneRun, Finding]]) -> list[Diagnosed]:
    """The same at the same site of a recipe, in whatever seed and however often, as one."""
    groups: dict[tuple[str, str, str], list[tuple[OneRun, Finding]]] = {}
    for run, finding in found:
        groups.setdefault((run.recipe, finding.name, finding.site), []).append((run, finding))
    return [_one(group) for group in groups.values()]


def _one(group: list[tuple[OneRun, Finding]]) -> Diagnosed:
    runs = [run for run, _ in group]
    times = {(run.seed, finding.step) for run, finding in group}
    first = min(finding.step for _, finding in group)
    told = group[0][1]
    rule = told.rule or next((finding.rule for _, finding in group if finding.rule), "")
    return Diagnosed(
        finding=replace(told, step=first, rule=rule),
        recipe=runs[0].recipe,
        seeds=tuple(sorted({run.seed for run in runs})),
        count=len(times),
        last_step=max(finding.step for _, finding in group),
    )


def _about(run: OneRun) -> str:
    name = f"recipe {run.recipe}" if run.recipe else "no recipe"
    applied = [record for record in run.steps if record.applied]
    parts = [f"{name}, seed {run.seed}: {count(len(applied), 'applied step')}"]
    if len(applied) < len(run.steps):
        parts.append(f"{len(run.steps) - len(applied)} skipped")
    losses = [record.curve_loss for record in run.steps if not math.isnan(record.curve_loss)]
    if losses:
        parts.append(f"loss {losses[0]:.4g} -> {losses[-1]:.4g}")
    if run.end is not None:
        parts.append(run.end.status)
    return ", ".join(parts)


def _summary(path: Path, dump: RecorderDump) -> DumpSummary:
    lines = dump.detail.strip().splitlines()
    return DumpSummary(
        path=path,
        reason=dump.reason,
        detail=lines[-1][:200] if lines else "",
        step=dump.step,
        steps=len(dump.steps),
        has_batch=not dump.batch,
    )
