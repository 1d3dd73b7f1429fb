"""Whether what a proof measured keeps the targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from mixprec.planner import QualityTarget, Targets
from mixprec.planner.plan import Evidence, Verdict
from mixprec.records import Gap, outcome_of
from mixprec.records import exit_status as status_of


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a paired run showed.

    Attributes:
        gaps: by metric, plan less baseline.
        baseline: the baseline's mean by metric.
        step_ratio: median time of a step over the baseline's, here.
        peak: of the plan's memory [bytes].
        baseline_peak: of the baseline's.
    """

    gaps: Mapping[str, Gap] = field(default_factory=dict[str, Gap])
    baseline: Mapping[str, float] = field(default_factory=dict[str, float])
    step_ratio: float | None = None
    peak: int | None = None
    baseline_peak: int | None = None

    @property
    def memory_ratio(self) -> float | None:
        """Peak over the baseline's."""
        return self.peak / self.baseline_peak if self.peak is not None and self.baseline_peak else None


def verdicts(targets: Targets, evidence: Evidence, outcome: Outcome) -> dict[str, Verdict]:
    """Judge every target: quality and memory as measured; time and cost, which another machine has, as predicted.

    A prediction for hardware that predictions were never compared with resolves nothing in favour of a plan.
    """
    found: dict[str, Verdict] = {}
    for metric, target in targets.quality.items():
        found[f"quality.{metric}"] = quality_verdict(
            target, outcome.gaps.get(metric, Gap()), outcome.baseline.get(metric, math.nan)
        )
    memory = {"bytes": (targets.memory.bytes, outcome.peak), "share": (targets.memory.share, outcome.memory_ratio)}
    for name, (most, value) in memory.items():
        if most is not None:
            found[f"memory.{name}"] = "not resolved" if value is None else "met" if value <= most else "missed"
    for name, most in (
        ("latency.ratio", targets.latency.ratio),
        ("latency.milliseconds", targets.latency.milliseconds),
        ("cost.largest", targets.cost),
    ):
        if most is not None:  # the search kept the limit that it comes down to
            found[name] = "met" if evidence.predicted.validated else "not resolved"
    return found


def quality_verdict(target: QualityTarget, gap: Gap, baseline: float) -> Verdict:
    """Whether a gap is within a target: its whole 95 % interval, or none of it.

    Example:
        >>> gap = Gap(per_seed={0: 0.010, 1: 0.012, 2: 0.011})
        >>> [quality_verdict(QualityTarget(absolute=most), gap, 2.0) for most in (0.02, 0.01, 0.001)]
        ['met', 'not resolved', 'missed']
    """
    if gap.seeds and any(not math.isfinite(value) for value in gap.per_seed.values()):
        return "missed"  # it diverged
    if gap.interval is None or not math.isfinite(baseline):
        return "not resolved"
    low, high = gap.interval
    if target.better == "higher":
        low, high = -high, -low
    most = target.largest_gap(baseline)
    return outcome_of((low, high), most)


def exit_status(found: Mapping[str, Verdict]) -> int:
    """The exit status of a command that judged targets.

    Example:
        >>> exit_status({}), exit_status({"a": "met", "b": "not resolved"}), exit_status({"a": "missed"})
        (0, 3, 1)
    """
    return status_of(found.values())
