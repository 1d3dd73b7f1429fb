"""What ``mixprec compare`` can be told of commands, sweeps, and runs at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from cyclopts import Parameter

if TYPE_CHECKING:
    from mixprec.compare import BlackBox
    from mixprec.records import ComparisonRecord

DEFAULT_SEEDS = 3
_METRIC = "metric "


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Commands, sweeps, and runs at once."""

    command: str | None = None
    """Instead of a workload: any script, run without a shell, with places {seed}, {recipe}, {run} and {steps}."""
    metric: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """With --command, once for each: FILE:KEY or FILE:KEY=NAME, in JSON lines or CSV. The first is the loss.
    What `--targets` judges beside a loss or perplexity says `better` there."""
    jobs: str = "1"
    """Runs at once, each in a process of its own, or `auto`: as cores and memory allow. Times are not compared then."""
    sweep: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """Expand recipes by a field, as [RECIPE:]PATH=VALUE,VALUE, e.g. wgrad.grad_output.rounding=nearest,stochastic."""


class _Asked(Protocol):
    """What of the other options concerns a command."""

    @property
    def recipes(self) -> str | None: ...
    @property
    def seeds(self) -> int | None: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def baseline(self) -> str | None: ...
    @property
    def out(self) -> Path | None: ...
    @property
    def resume(self) -> Path | None: ...


def asked_jobs(text: str) -> int | Literal["auto"]:
    """Read ``--jobs``.

    Raises:
        ValueError: neither ``auto`` nor a number from 1 on.

    Example:
        >>> asked_jobs("auto"), asked_jobs("4")
        ('auto', 4)
    """
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--jobs is '{text}', expected a number of runs at once, 1 or more, or auto")
    return int(text)


def black_box(workload: str | None, options: _Asked, processes: Processes) -> BlackBox | None:
    """The comparison of a command that was asked for; ``None`` where a workload is.

    With ``--resume``, what is not asked for is as it was.

    Raises:
        ValueError: options that do not go together.
    """
    from mixprec.compare import BlackBox, recorded

    earlier = recorded(options.resume) if options.resume is not None and workload is None else None
    command = processes.command or (None if earlier is None else earlier.data.get("command"))
    if command is None:
        if processes.metric:
            raise ValueError("--metric is for --command: a workload's metrics are those of its evaluate")
        return None
    _check(workload, options, processes)
    return BlackBox(
        command=command,
        metrics=processes.metric or _recorded_metrics(earlier),
        names=_names(options.recipes, earlier),
        seeds=_seeds(options.seeds, earlier),
        baseline=options.baseline or (earlier.baseline if earlier else ""),
        steps=options.steps or (_recorded_steps(earlier) if earlier else None),
    )


def check_folder_and_seeds(options: _Asked) -> None:
    """Refuse what no comparison can be told.

    Raises:
        ValueError: two folders, or no seed.
    """
    if options.resume is not None and options.out is not None:
        raise ValueError("--resume names the folder already: leave --out out")
    if options.seeds is not None and options.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {options.seeds}")


def _check(workload: str | None, options: _Asked, processes: Processes) -> None:
    if workload is not None:
        raise ValueError(f"a workload ('{workload}') and a --command were given: leave one out")
    check_folder_and_seeds(options)
    if processes.sweep:
        raise ValueError(
            "--sweep expands mixprec's recipes; what a --command does with a name is its own: use --recipes"
        )
    for name, word in (("data", ""), ("threads", ""), ("one_by_one", ""), ("device", "cpu")):
        if getattr(options, name, None) not in (None, False, word):
            raise ValueError(f"--{name.replace('_', '-')} is for workloads: put it into the --command")


def _names(recipes: str | None, earlier: ComparisonRecord | None) -> tuple[str, ...]:
    asked = tuple(name.strip() for name in recipes.split(",")) if recipes else ()
    before = earlier.recipes if earlier else ()
    if not asked and not before:
        raise ValueError(
            "--command needs --recipes: the names to put for {recipe}, comma-separated, the baseline first"
        )
    if not before:
        return asked
    return (*before, *(name for name in asked if name not in before))


def _seeds(seeds: int | None, earlier: ComparisonRecord | None) -> tuple[int, ...]:
    if earlier is not None and seeds is None:
        return earlier.seeds
    return tuple(range(DEFAULT_SEEDS if seeds is None else seeds))


def _recorded_metrics(earlier: ComparisonRecord | None) -> tuple[str, ...]:
    found = earlier.data.items() if earlier is not None else ()
    return tuple(f"{value}={key.removeprefix(_METRIC)}" for key, value in found if key.startswith(_METRIC))


def _recorded_steps(earlier: ComparisonRecord) -> int | None:
    """The steps that were asked for; a record's own may be those that the command turned out to take."""
    return int(earlier.data["steps"]) if "steps" in earlier.data else None
