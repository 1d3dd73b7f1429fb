"""One picture of a run for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mixprec.records import (
    NOTHING,
    FindingRecord,
    IncidentOutcome,
    IncidentRecord,
    incident_cause,
    incident_cost,
    incident_outcome,
)

from .._figures import loss, magnitude, scale, share
from ._curve import draw
from ._run_state import RunsState, RunState
from ._worst_sites import worst_sites

#: Colours of severities; names of the terminal's own palette, so that they fit its background.
SEVERITY = {"fault": "bold red", "warning": "yellow", "note": "dim"}
#: And of what came of incidents.
OUTCOME: Mapping[IncidentOutcome, str] = MappingProxyType(
    {"open": "yellow", "recovered": "green", "again": "yellow", "stopped": "bold red", "rehearsed": "dim"}
)

#: Lines that a curve is high, and lines of everything but findings and sites.
_CURVE, _FIXED = 4, 12
#: Runs that have a line each; the newest of more.
_RUNS = 10
#: Columns of a terminal under which casts and magnitudes are left out.
_NARROW = 90


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What is drawn: all runs in a line each, and one of them in full.

    Attributes:
        title: of the workload or loop.
        folder: of the run; empty where it has none.
        state: of all runs.
        shown: the run in full.
        steps: of each run, where no comparison tells them.
        notes: what else must be said, e.g. of lines that could not be read.
        plain: for a pipe or a file: no curve, and nothing is cut to a screen's height.
    """

    title: str
    folder: str = ""
    state: RunsState
    shown: RunState
    steps: int | None = None
    notes: tuple[str, ...] = ()
    plain: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = 1000 if self.plain else (options.height or console.height)
        runs = min(len(self.state.runs), _RUNS + 1)
        room = max(4, height - _FIXED - (runs + 2 if runs > 1 else 0))
        told = _Told(
            findings=min(len(self.shown.findings), max(2, room // 3)),
            incidents=min(len(self.shown.incidents), max(2, room // 4)),
        )
        sites = room - told.findings - 3 - (told.incidents + 2 if told.incidents else 0)
        yield Group(*self._parts(options.max_width, sites, told, options.ascii_only))

    def _parts(self, width: int, sites: int, told: _Told, is_ascii: bool) -> Iterable[RenderableType]:
        yield _headline(self)
        if len(self.state.runs) > 1:
            yield _below(_runs(self.state, self.shown))
        yield _below(_facts(self.shown))
        if not self.plain and not is_ascii and (curve := _curve(self.shown, width)):
            yield _below(curve)
        if self.shown.tensors:
            yield _below(_sites(self.shown, max(3, min(sites, 12)), full=width >= _NARROW))
        if self.shown.incidents:
            yield _below(_incidents([self.shown.incidents[n] for n in sorted(self.shown.incidents)[-told.incidents :]]))
        if self.shown.findings:
            yield _below(_findings(list(self.shown.findings)[-told.findings :]))
        for note in self.notes:
            yield Text(note, style="yellow")


@dataclass(frozen=True, kw_only=True)
class _Told:
    """How many lines the newest findings and incidents get."""

    findings: int
    incidents: int


def _below(part: RenderableType) -> Padding:
    return Padding(part, (1, 0, 0, 0), expand=False)


def _headline(frame: Frame) -> Text:
    run, state = frame.shown, frame.state
    # The folder's name comes last: it is what may be cut off.
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{frame.title}  " * bool(frame.title), style="bold")
    text.append(f"{run.recipe}, seed {run.seed}", style="bold cyan")
    if run.last is not None:
        steps = state.header.steps if state.header else frame.steps
        of = f" of {steps}" if steps else ""
        # A step's number counts from 0; a reader counts steps.
        text.append(f"  step {run.last.step + 1}{of}")
    if run.end is not None:
        text.append(f"  {run.end.status}", style="green" if run.end.status == "done" else "bold red")
    elif run.seconds:
        text.append(f"  {_speed(run)}")
        left = frame.steps - run.last.step - 1 if frame.steps and run.last is not None else 0
        text.append(f"  {timedelta(seconds=round(left * run.seconds))} left" if left > 0 else "", style="dim")
    text.append(f"  {frame.folder}" * bool(frame.folder), style="dim")
    return text


def _speed(run: RunState) -> str:
    seconds = run.seconds or 0.0
    if not seconds:
        return NOTHING
    if run.last is not None and run.last.tokens:
        return f"{run.last.tokens / seconds:,.0f} tokens/s"
    return f"{1 / seconds:.3g} steps/s" if seconds < 1 else f"{seconds:.3g} s/step"


def _runs(state: RunsState, shown: RunState) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for name, justify in (("", "left"), ("recipe", "left"), ("seed", "right"), ("step", "right"), ("loss", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # pyright: ignore[reportArgumentType]
    table.add_column("skipped", justify="right")
    table.add_column("status", no_wrap=True)
    runs = list(state.runs.values())
    shown_runs = [run for i, run in enumerate(runs) if run is shown or i >= len(runs) - _RUNS]
    for run in shown_runs:
        last = run.last
        table.add_row(
            "▸" if run is shown else "",
            run.recipe,
            str(run.seed),
            NOTHING if last is None else str(last.step + 1),
            NOTHING if last is None or last.loss is None else loss(last.loss),
            str(run.skipped),
            "running" if run.end is None else run.end.status,
        )
    if len(shown_runs) < len(runs):
        table.add_row("", f"and {len(runs) - len(shown_runs)} before", style="dim")
    return table


def _losses(run: RunState) -> list[tuple[str, str]]:
    """The loss; of a run that has several each one's last value."""
    if len(run.losses) > 1:
        return [(f"loss {name}", loss(value)) for name, value in run.losses.items()]
    return [("loss", NOTHING if run.last is None or run.last.loss is None else loss(run.last.loss))]


def _facts(run: RunState) -> Table:
    """Label over value, as many as the width takes."""
    last = run.last
    facts = [
        *_losses(run),
        ("gradient norm", magnitude(None if last is None else last.grad_norm)),
        ("loss scale", scale(None if last is None else last.loss_scale)),
        ("skipped", _skipped(run)),
    ]
    if run.incidents:
        unsettled = sum(incident.outcome == "open" for incident in run.incidents.values())
        # They are numbered from 1, and the view keeps the newest alone.
        facts.append(("incidents", f"{max(run.incidents)}" + (f", {unsettled} open" if unsettled else "")))
    if run.evaluation is not None and "loss" in run.evaluation.metrics:
        facts.append(("evaluation", f"{loss(run.evaluation.metrics['loss'])} at {run.evaluation.step}"))
    if run.updates:
        lost = max(run.updates.values(), key=lambda update: update.lost)
        facts.append(("updates lost", f"{share(lost.lost)} {lost.site}" if lost.lost else "none"))
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim", show_edge=False)
    for name, _ in facts:
        table.add_column(name, overflow="fold")
    table.add_row(*(Text(value, style="bold") for _, value in facts))
    return table


def _skipped(run: RunState) -> str:
    total = run.applied + run.skipped
    return f"{run.skipped} of {total}" if total else NOTHING


def _curve(run: RunState, width: int) -> RenderableType | None:
    drawn = draw(run.loss.values, max(10, min(width - 12, 100)), _CURVE)
    if drawn is None or len(run.loss.values) < 3:
        return None
    lines, low, high = drawn
    table = Table.grid(padding=(0, 1, 0, 0))
    for i, line in enumerate(lines):
        label = magnitude(high) if i == 0 else magnitude(low) if i == len(lines) - 1 else ""
        table.add_row(Text(label, style="dim", justify="right"), Text(line, style="cyan", no_wrap=True))
    return table


def _sites(run: RunState, rows: int, *, full: bool) -> Table:
    worst = worst_sites(run.tensors.values(), rows)
    title = f"worst of {len(run.tensors)} tensors" if len(worst) < len(run.tensors) else "tensors"
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column(title, overflow="fold")
    if full:
        table.add_column("cast", no_wrap=True)
    figures = ("saturated", "flushed", "SQNR", *(("amax",) if full else ()))
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for row in worst:
        cells = [Text(row.cells[name], style="bold yellow" if name in row.why else "") for name in figures]
        casts = [Text(row.cast, style="dim")] if full else []
        table.add_row(Text(row.site), *casts, *cells)
    return table


def _incidents(incidents: list[IncidentRecord]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("incident", overflow="fold")
    for incident in reversed(incidents):
        text = Text(f"{incident.number}: {incident_cause(incident)}", style="bold")
        text.append(f"  {incident.rung}", style="cyan")
        text.append(f"  {incident_outcome(incident)}", style=OUTCOME[incident.outcome])
        rest = "; ".join(filter(None, (incident.action.strip().rstrip("."), incident_cost(incident))))
        text.append(f"  {rest}" if rest else "", style="dim")
        table.add_row(str(incident.step), text)
    return table


def _findings(findings: list[FindingRecord]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for finding in reversed(findings):
        text = Text(f"{finding.severity}: {finding.name}", style=SEVERITY[finding.severity])
        where = f"  {finding.site}" if finding.site and finding.site not in finding.message else ""
        text.append(f"{where}  {finding.message}", style="default")
        if finding.remedy:
            text.append(f"; {finding.remedy}", style="dim")
        table.add_row(str(finding.step), text)
    return table
