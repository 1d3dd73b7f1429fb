"""What a plan is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mixprec.hardware import Hardware
from mixprec.planner import KEEP, Candidate, LayerTarget, Quantity, Targets
from mixprec.specs import Recipe

from .._loading import WorkloadSource


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A plan to be made.

    Attributes:
        source: gives the workload of a seed.
        hardware: that times are predicted for.
        candidates: what layers may be given beside ``"keep"``.
        base: the recipe that ``"keep"`` means; its rules are replaced.
        targets: what the plan must keep to.
        minimise: ``"seconds"``, ``"bytes"``, ``"cost"`` or ``"loss"``.
        loss_budget: the largest predicted change of the loss; ``None``: the target's.
        keep: globs of layers that stay in the compute dtype.
        emulated: whether formats that the hardware does not multiply may be given too; they gain no time.
        steps: of training under ``base`` before measuring.
        checkpoint: to take the weights from instead.
        batches: that are measured at most; one alone ranks layers clearly worse than two.
        most_steps: a further batch is measured only while the scores are expected to end within this many steps' time;
            the same inputs may then give another plan on a slower machine. ``None``: all batches are.
        seed: of the weights and the data.
        device: where to measure.
        name: of the plan's recipe.

    Raises:
        ValueError: no candidates, no batch, or a budget that is no number.
    """

    source: WorkloadSource
    hardware: Hardware
    candidates: tuple[Candidate, ...]
    base: Recipe
    targets: Targets = field(default_factory=Targets)
    minimise: Quantity = "seconds"
    loss_budget: float | None = None
    keep: tuple[str, ...] = ()
    emulated: bool = False
    steps: int = 100
    checkpoint: Path | None = None
    batches: int = 2
    most_steps: float | None = None
    seed: int = 0
    device: str = "cpu"
    name: str = "planned"

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("a plan got no candidates: expected names of recipes, e.g. --candidates mxfp8,nvfp4")
        if self.batches < 1:
            raise ValueError(f"a plan got batches={self.batches}: expected at least 1 to measure")
        if self.loss_budget is not None and not self.loss_budget >= 0:
            raise ValueError(f"the loss budget is {self.loss_budget}: expected a number, 0 or more")

    @property
    def layer_targets(self) -> tuple[LayerTarget, ...]:
        """Those of the targets and of ``keep``."""
        return (*self.targets.layers, *(LayerTarget(match=glob, candidates=(KEEP,)) for glob in self.keep))

    def budget(self, loss: float) -> float | None:
        """The largest predicted change of the loss, where the baseline's is this; ``None`` without any."""
        return self.targets.loss_budget(loss) if self.loss_budget is None else self.loss_budget

    @property
    def said_targets(self) -> Mapping[str, object]:
        """The targets as the plan's file repeats them."""
        targets, told = self.targets, dict[str, object]()
        for metric, gap in targets.quality.items():
            told[f"quality.{metric}"] = gap.said
        numbers = {
            "latency.ratio": targets.latency.ratio,
            "latency.milliseconds": targets.latency.milliseconds,
            "memory.bytes": targets.memory.bytes,
            "memory.share": targets.memory.share,
            "cost.largest": None if targets.cost is None else targets.cost.largest,
        }
        told |= {name: value for name, value in numbers.items() if value is not None}
        return told | {f"layers.{i}": target.said for i, target in enumerate(self.layer_targets)}
