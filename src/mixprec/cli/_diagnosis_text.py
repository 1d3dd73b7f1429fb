"""A diagnosis and a replay on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from mixprec.records import count, incident_text

if TYPE_CHECKING:
    from mixprec.compare import Replayed
    from mixprec.monitor import Finding
    from mixprec.monitor.doctor import Diagnosed, Diagnosis

_STYLES = {"fault": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_INDENT = 3
_UNLIMITED = 10_000


def print_diagnosis(
    diagnosis: Diagnosis, *, top: int = 0, replays: bool = False, console: Console | None = None
) -> None:
    """Print what was found, in order of weight; into a pipe or a file every sentence stays on its line.

    Args:
        diagnosis: the doctor's.
        top: how many findings are shown; 0: all.
        replays: whether a replay follows; else it is said how to get one.
        console: where to print; standard output by default.
    """
    console = _console(console)
    console.print(Text(f"{diagnosis.path}: a {diagnosis.kind}", style="bold"))
    for line in diagnosis.about:
        _print(console, line)
    shown = diagnosis.findings[: top or None]
    for number, found in enumerate(shown, 1):
        console.print()
        _print_found(console, number, found)
    _print_incidents(console, diagnosis, top)
    console.print()
    if len(shown) < len(diagnosis.findings):
        console.print(f"{count(len(diagnosis.findings) - len(shown), 'more finding')}: --top 0 shows all")
    console.print(Text(_summary(diagnosis), style="bold"))
    for dump in diagnosis.dumps:
        batch = "with its batch" if dump.has_batch else "without its batch"
        detail = f", {dump.detail}" if dump.detail else ""
        console.print(Text(f"recorded: {dump.path} ({dump.reason}{detail}; {count(dump.steps, 'step')}, {batch})"))
    for text in diagnosis.left_out:
        console.print(Text(f"left out: {text}", style="yellow"))
    if not replays and any(found.finding.severity == "fault" for found in diagnosis.findings):
        console.print(
            Text(
                f"to replay the step at fault: mixprec doctor {diagnosis.path} --workload FILE, where FILE defines "
                "workload(seed, device) as `mixprec init FILE` writes it"
            )
        )


def print_replay(replayed: Replayed, *, console: Console | None = None) -> None:
    """Print what a replayed step showed."""
    console = _console(console)
    console.print()
    name = f"replay of step {replayed.step}, recipe {replayed.recipe}, seed {replayed.seed}"
    console.print(Text(name, style="bold"))
    for line in replayed.told:
        _print(console, line)
    for number, finding in enumerate(replayed.findings, 1):
        console.print()
        _print_finding(console, f"{number}. ", finding, "")
    if not replayed.findings:
        what = "no operation was found that made it so" if replayed.is_bad else "nothing is wrong with the step"
        _print(console, what)


def _console(console: Console | None) -> Console:
    console = console or Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def _summary(diagnosis: Diagnosis) -> str:
    severities = [found.finding.severity for found in diagnosis.findings]
    parts = [count(severities.count(kind), kind) for kind in _STYLES if kind in severities]
    if diagnosis.incidents:
        outcomes = [incident.outcome for incident in diagnosis.incidents]
        bad = {"open": outcomes.count("open"), "stopped the run": outcomes.count("stopped")}
        told = [f"{number} {name}" for name, number in bad.items() if number]
        parts.append(count(len(outcomes), "incident") + (f" ({', '.join(told)})" if told else ""))
    return ", ".join(parts) or "nothing was found"


def _print_incidents(console: Console, diagnosis: Diagnosis, top: int) -> None:
    if not diagnosis.incidents:
        return
    console.print()
    console.print(Text("incidents", style="bold"))
    shown = diagnosis.incidents[-top:] if top else diagnosis.incidents
    if len(shown) < len(diagnosis.incidents):
        _print(console, f"{len(diagnosis.incidents) - len(shown)} earlier: --top 0 shows all")
    for incident in shown:
        whose = f"{incident.recipe}, seed {incident.seed}" if diagnosis.kind == "comparison" else ""
        _print(console, f"step {incident.step}{f', {whose}' if whose else ''}: {incident_text(incident)}")
    _print(console, f"one on a page: mixprec doctor {diagnosis.path} --incident {shown[-1].number}")


def _print_found(console: Console, number: int, found: Diagnosed) -> None:
    finding = found.finding
    times = f", {found.count} times, to step {found.last_step}" if found.count > 1 else ""
    seeds = "" if len(found.seeds) < 2 else f", seeds {', '.join(map(str, found.seeds))}"
    recipe = f", {found.recipe}" if found.recipe else ""
    _print_finding(console, f"{number}. ", finding, f"step {finding.step}{times}{recipe}{seeds}")


def _print_finding(console: Console, number: str, finding: Finding, where: str) -> None:
    head = Text(number).append(finding.severity, _STYLES[finding.severity]).append(f": {finding.name}", "bold")
    console.print(head.append(f" ({where})" if where else ""))
    site = f"{finding.site}: " if finding.site and finding.site not in finding.message else ""
    _print(console, f"{site}{finding.message}")
    for name, text in _parts(finding):
        _print(console, f"{name + ':':<11}{text}")
    if finding.rule:
        is_rule = finding.rule.startswith("[[rules]]")
        _print(console, "add to the recipe, rules before its own:" if is_rule else "in the recipe, instead of its own:")
        for line in finding.rule.rstrip().splitlines():
            console.print(Text(f"{' ' * (_INDENT + 3)}{line}".rstrip(), style="green"), soft_wrap=True)


def _parts(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.evidence:
        yield "evidence", ", ".join(f"{name} {_value(value)}" for name, value in finding.evidence.items())
    if finding.threshold not in ("", "none"):
        yield "threshold", finding.threshold
    if finding.remedy:
        yield "remedy", finding.remedy


def _value(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print(console: Console, line: str) -> None:
    console.print(Padding(Text(line), (0, 0, 0, _INDENT), expand=False))
