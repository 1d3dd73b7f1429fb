"""What is compared where the training is a script of the user's: a command, its metrics, names and seeds."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mixprec.records import PairPlan, TargetRow, better_by_name

from .._compared import checked_baseline
from ._log_records import LogFile
from ._metric_source import LOSS, MetricSource, parse_metric, with_loss
from ._placeholders import fill, places_in

_EXAMPLE = 'such as "python train.py --seed {seed} --recipe {recipe} --out {run}"'


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """A comparison of runs of a command.

    In the command and in the names of files stand ``{recipe}``, ``{seed}``, ``{run}`` (a folder of the run's own) and
    ``{steps}``.

    Attributes:
        command: split into words as a shell would, and run without one.
        metrics: ``file:key`` or ``file:key=name`` each. The one named ``loss``, else the first without a name of its
            own, is what gaps are taken of. ``train_loss`` is the loss of the steps, ``step_seconds`` their time.
        names: of what is compared, in the order in which they are shown.
        seeds: each shared by all names.
        baseline: the name that gaps are taken to; the first by default.
        steps: of each run, for ``{steps}``; ``None`` where the command knows by itself.
        plan: add seeds, in their order, until the gaps of each name are resolved; there are as many as its budget.
            ``None`` runs them all.
        targets: what each name is judged by.

    Raises:
        ValueError: a command, a metric or a name that cannot be used; the message says what to mend.

    Example:
        >>> box = BlackBox(
        ...     command="python train.py --seed {seed} --recipe {recipe} --log {run}/log.csv",
        ...     metrics=("{run}/log.csv:val_loss",),
        ...     names=("fp32", "mine"),
        ...     seeds=(0, 1),
        ... )
        >>> box.words("mine", 1, Path("runs/mine 1"))[3:]
        ['1', '--recipe', 'mine', '--log', 'runs/mine 1/log.csv']
    """

    command: str
    metrics: tuple[str, ...]
    names: tuple[str, ...]
    seeds: tuple[int, ...]
    baseline: str = ""
    steps: int | None = None
    plan: PairPlan | None = None
    targets: tuple[TargetRow, ...] = ()

    def __post_init__(self) -> None:
        if not all(name.strip() for name in self.names):
            raise ValueError("a recipe has an empty name: expected a word for each")
        baseline = checked_baseline(self.names, self.seeds, self.baseline, self.plan)
        object.__setattr__(self, "baseline", baseline)
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        self._check_command()
        for metric in self.sources:
            self._check_file(metric)
        self._check_loss()

    @property
    def sources(self) -> tuple[MetricSource, ...]:
        """The metrics, one of them the loss."""
        return with_loss([parse_metric(text) for text in self.metrics])

    @property
    def program(self) -> str:
        """The script's name, else the program's."""
        words = self._split()
        scripts = [word for word in words if word.endswith((".py", ".sh"))]
        return Path((scripts or words)[0]).name

    def words(self, recipe: str, seed: int, place: Path) -> list[str]:
        """The command of a run."""
        values = self._values(recipe, seed, place)
        return [fill(word, values) for word in self._split()]

    def files(self, recipe: str, seed: int, place: Path) -> list[LogFile]:
        """Where a run's metrics are."""
        values = self._values(recipe, seed, place)
        return [LogFile(name=m.name, path=Path(fill(m.file, values)), key=m.key) for m in self.sources]

    def _values(self, recipe: str, seed: int, place: Path) -> Mapping[str, str]:
        steps = {} if self.steps is None else {"steps": str(self.steps)}
        return {"recipe": recipe, "seed": str(seed), "run": str(place), **steps}

    def _split(self) -> list[str]:
        try:
            return shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"the command {self.command!r} cannot be split into words: {error}") from None

    def _check_command(self) -> None:
        words = self._split()
        if not words:
            raise ValueError(f"the command is empty: expected one {_EXAMPLE}")
        self.words(self.names[0], self.seeds[0], Path("run"))  # refuses unknown places
        if "steps" not in places_in(self.command) and self.steps is not None:
            raise ValueError("steps are given, and the command has no place for them: add {steps} to it")
        for place, values in (("recipe", self.names), ("seed", self.seeds)):
            if len(values) > 1 and place not in places_in(self.command):
                raise ValueError(
                    f"the command has no {{{place}}}, so all {len(values)} would run alike: expected one {_EXAMPLE}"
                )
        if not places_in(words[0]) and shutil.which(words[0]) is None:
            raise ValueError(f"the command's program '{words[0]}' is not found: expected a name on PATH or a file")

    def _check_loss(self) -> None:
        """Refuse to judge as a loss what took its name by its place alone."""
        if all(row["name"] != "quality.loss" for row in self.targets):
            return
        for metric in self.sources:
            if metric.name == LOSS and not metric.is_labelled and better_by_name(metric.key) is None:
                raise ValueError(
                    f"'{metric.key}' is the first metric without a name of its own, so the target quality.loss would "
                    f"judge it as a loss: write {metric.key}=loss if lower values are better, else add a metric that "
                    f'is the loss, and a target for {metric.key}={metric.key} with better = "higher"'
                )

    def _check_file(self, metric: MetricSource) -> None:
        """Runs that write one file would overwrite each other's."""
        found = places_in(metric.file)
        needed = {place for place, values in (("recipe", self.names), ("seed", self.seeds)) if len(values) > 1}
        if "run" not in found and not needed <= found:
            raise ValueError(
                f"metric file '{metric.file}' is the same for several runs: put {{run}} into it and into the command, "
                "which is a folder of the run's own"
            )
        fill(metric.file, self._values(self.names[0], self.seeds[0], Path("run")))
