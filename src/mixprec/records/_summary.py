"""What a comparison found: one row for each recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ._direction import better_by_name
from ._pair_plan import PairPlan
from ._paired import Metric
from ._smoothed_loss import SMOOTHED_LOSS, TimeToQuality
from ._timing import Timing
from ._types import Better, Status, TargetRow

#: ``"unfinished"``: there is no word on how it ended (it may still run, or its process was killed).
RunStatus = Status | Literal["unfinished"]

# The worst first: what a row of several seeds is called.
_SEVERITY: tuple[RunStatus, ...] = ("failed", "diverged", "interrupted", "unfinished")


@dataclass(frozen=True, kw_only=True)
class SeedRun:
    """One recipe's run under one seed: how it ended, and the steps taken, skipped, and told with their time."""

    seed: int
    status: RunStatus
    reason: str
    steps: int
    skipped: int
    timed: int = 0


@dataclass(frozen=True, kw_only=True)
class RecipeSummary:
    """What one recipe costs and loses. Whatever was not measured is ``None`` or empty.

    Attributes:
        recipe: its name.
        runs: one for each seed.
        evaluated_at: steps taken before the evaluation that the metrics are of: the last step, or for an interrupted
            comparison the latest that was evaluated. Runs that diverged or failed are in no metric.
        metrics: by name, in the recipe's own forward pass.
        fp32_metrics: the same with the trained weights in plain fp32.
        step_seconds: median over seeds of the median step time, the first three steps left out [s].
        time_ratio: that over the baseline's, of the seeds that both have.
        timing: the slowest steps, the throughput, and how well times repeat.
        smoothed_loss: training loss, mean of the last tenth of the steps; of the runs that took them all.
        to_quality: how many steps it needs for the smoothed loss that the baseline ends at.
        beside: seeds whose runs others ran beside, so that their times are in neither.
        saved_activation_bytes: kept by autograd for the backward pass; the largest of the seeds.
        saved_ratio: over the baseline's.
        peak_bytes: most live tensor storage in a step.
        peak_ratio: over the baseline's.
        rss_bytes: of the process, which may have held several recipes' models at once.
        parameters: numbers in the model's parameters.
        bytes_by_kind: of the seed that needs most: weights, masters, moments, gradients, saved activations and so on.
        saved_by_site: saved activations of that seed by the module that saved them first.
        flop_shares: share of the GEMM FLOPs by format, largest first.
        engines: share of the GEMM FLOPs by engine, largest first.
        uncovered: GEMMs that ran outside the recipe, by name.
    """

    recipe: str
    runs: tuple[SeedRun, ...]
    evaluated_at: int | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict[str, Metric])
    fp32_metrics: Mapping[str, Metric] = field(default_factory=dict[str, Metric])
    step_seconds: float | None = None
    time_ratio: float | None = None
    timing: Timing | None = None
    smoothed_loss: Metric | None = None
    to_quality: TimeToQuality | None = None
    beside: int = 0
    saved_activation_bytes: int | None = None
    saved_ratio: float | None = None
    peak_bytes: int | None = None
    peak_ratio: float | None = None
    rss_bytes: int | None = None
    parameters: int | None = None
    bytes_by_kind: Mapping[str, int] = field(default_factory=dict[str, int])
    saved_by_site: Mapping[str, int] = field(default_factory=dict[str, int])
    flop_shares: Mapping[str, float] = field(default_factory=dict[str, float])
    engines: Mapping[str, float] = field(default_factory=dict[str, float])
    uncovered: tuple[str, ...] = ()

    @property
    def loss(self) -> Metric | None:
        """The loss in the recipe's own forward pass."""
        return self.metrics.get("loss")

    @property
    def fp32_loss(self) -> Metric | None:
        """The loss of the trained weights in plain fp32."""
        return self.fp32_metrics.get("loss")

    @property
    def quality(self) -> Mapping[str, Metric]:
        """Every metric in the recipe's own forward pass, and the smoothed training loss (``"smoothed_loss"``)."""
        return ({} if self.smoothed_loss is None else {SMOOTHED_LOSS: self.smoothed_loss}) | dict(self.metrics)

    @property
    def speed_up(self) -> float | None:
        """How many times sooner than the baseline it reaches the smoothed loss that the baseline ends at, here."""
        return None if self.to_quality is None else self.to_quality.speed_up(self.time_ratio)

    @property
    def status(self) -> RunStatus:
        """The worst of its runs'; ``"unfinished"`` before any."""
        found = {run.status for run in self.runs}
        for status in _SEVERITY:
            if status in found:
                return status
        return "done" if found else "unfinished"

    @property
    def steps(self) -> int:
        """Steps taken by all seeds together, skipped ones included."""
        return sum(run.steps for run in self.runs)

    @property
    def skipped_steps(self) -> int:
        """Steps of all seeds that were not applied."""
        return sum(run.skipped for run in self.runs)

    @property
    def emulated(self) -> bool:
        """Whether any GEMM was emulated: exact numbers, no gain in speed."""
        return self.engines.get("emulated", 0.0) > 0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a comparison found.

    Attributes:
        workload: its name; empty where the records do not tell it.
        baseline: the recipe that gaps and ratios are taken to.
        seeds: of the comparison.
        steps: that each run was to take.
        rows: one for each recipe, in the comparison's order.
        plan: by which pairs were added; ``None`` where the seeds were chosen beforehand.
        better: which values of a metric are better, by its name.
        targets: what each recipe is judged by.
        afterwards: what was chosen once runs had ended, so that intervals or verdicts may claim too much.
    """

    workload: str
    baseline: str
    seeds: tuple[int, ...]
    steps: int
    rows: tuple[RecipeSummary, ...]
    plan: PairPlan | None = None
    better: Mapping[str, Better] = field(default_factory=dict[str, Better])
    targets: tuple[TargetRow, ...] = ()
    afterwards: tuple[str, ...] = ()

    def direction(self, metric: str) -> Better | None:
        """Which values of a metric are better; a slice (``"accuracy/digit-3"``) has its metric's, a loss lower ones.

        Example:
            >>> summary = Summary(workload="w", baseline="fp32", seeds=(), steps=1, rows=(), better={"f1": "higher"})
            >>> summary.direction("f1/rare"), summary.direction("loss/rare"), summary.direction("margin")
            ('higher', 'lower', None)
        """
        whole = metric.partition("/")[0]
        told = self.better.get(metric) or self.better.get(whole)
        return told or better_by_name(whole)

    def row(self, recipe: str) -> RecipeSummary | None:
        """The row of a recipe."""
        return next((row for row in self.rows if row.recipe == recipe), None)
