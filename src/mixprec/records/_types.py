"""What a run says of itself: one frozen dataclass for each kind of line in ``records.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

#: Version of the lines that this package writes. A field added, removed or changed in meaning raises it.
SCHEMA_VERSION = 5

Forward = Literal["recipe", "fp32"]
Status = Literal["done", "interrupted", "failed", "diverged"]
Severity = Literal["fault", "warning", "note"]
#: What a guard does about an incident, from the mildest to the last resort; ``"tell"``: nothing but this record.
Rung = Literal["tell", "clip", "scale", "skip", "rewind", "escalate", "stop"]
#: ``"again"``: the same came back, and a further incident tells what was done then; ``"rehearsed"``: only told.
IncidentOutcome = Literal["open", "recovered", "again", "stopped", "rehearsed"]
Better = Literal["lower", "higher"]
#: Of a metric, of the baseline's value or size, of seconds and bytes, and the currency of the hardware's price.
TargetUnit = Literal["absolute", "relative", "ratio", "milliseconds", "bytes", "share", "price"]


class CoverageRow(TypedDict):
    """The GEMMs of one kind (``gemm``) at one site: their operands' format, their engine, FLOPs in one step."""

    site: str
    gemm: str
    format: str
    engine: str
    flops: int


class TargetRow(TypedDict):
    """What a recipe is to keep to.

    ``name`` is that of the targets file, e.g. ``"quality.loss"`` or ``"latency.ratio"``; ``limit`` the most that is
    allowed, ``unit`` what it counts in; of a metric's gap ``better`` is the direction that costs nothing, else
    ``"lower"``.
    """

    name: str
    limit: float
    unit: TargetUnit
    better: Better


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    """What a comparison is; the first line of its records.

    Attributes:
        workload: its name, or the file that it came from.
        recipes: names, in the order in which they are shown.
        baseline: the recipe that gaps and ratios are taken to.
        seeds: each shared by all recipes.
        steps: training steps of each run.
        machine: facts that a time or a last bit may depend on.
        versions: of packages, by name.
        data: what the workload says of its data (``name``, ``sha256``).
        max_pairs: the budget of seeds, where they are added until each gap is resolved; ``None`` (as the following are
            empty) where they were chosen beforehand, and in lines of earlier versions. The seeds are then those that
            have been begun; a later record of this kind names more.
        critical: of the intervals after 3, 4, ... ``max_pairs`` pairs; see ``PairPlan``.
        better: which values of a metric are better, by its name; a slice has its metric's.
        targets: what each recipe is judged by.
        afterwards: what was chosen once runs had ended, so that it may have been chosen for their sake; sentences.
    """

    workload: str
    recipes: tuple[str, ...]
    baseline: str
    seeds: tuple[int, ...]
    steps: int
    machine: Mapping[str, str | int | float]
    versions: Mapping[str, str]
    data: Mapping[str, str]
    max_pairs: int | None = None
    critical: tuple[float, ...] = ()
    better: Mapping[str, Better] = field(default_factory=dict[str, Better])
    targets: tuple[TargetRow, ...] = ()
    afterwards: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One training step.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: counted from 0.
        loss: unscaled, before the update; may be NaN or infinite; ``None`` where no loss is known (NaN in lines of
            earlier versions).
        seconds: wall time of forward, backward and update [s]; NaN where a script does not tell it.
        applied: False for a skipped step.
        grad_norm: of the unscaled gradient before clipping; ``None`` where it was not taken.
        loss_scale: that the step ran under; ``None`` without one.
        tokens: tokens (or samples) in the step; ``None`` where unknown.
        turn: which optimizers took it with which losses, where a run has several: steps of another turn have other
            losses and norms; else empty.
        losses: each loss of it by its name, or (of those without a name) that of the optimizers that took it, where a
            run has several; else empty.
    """

    recipe: str
    seed: int
    step: int
    loss: float | None
    seconds: float
    applied: bool
    grad_norm: float | None
    loss_scale: float | None
    tokens: int | None
    turn: str = ""
    losses: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def curve_loss(self) -> float:
        """The loss; NaN where none is known, which leaves a gap in a curve."""
        return math.nan if self.loss is None else self.loss


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """Quality after ``step`` steps.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: steps taken before it.
        forward: ``"recipe"`` for the recipe's own forward pass, ``"fp32"`` for the same weights in plain fp32.
        metrics: by name, ``"loss"`` among them; a slice is named ``"loss/slice"``.
    """

    recipe: str
    seed: int
    step: int
    forward: Forward
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """Something that happened: a skipped step, a fallback, a fault.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: at which it happened, counted from 0.
        name: its kind, e.g. ``"skipped"``.
        site: module path and role; empty where it has none.
        message: one line for a reader, or a traceback.
    """

    recipe: str
    seed: int
    step: int
    name: str
    site: str
    message: str


@dataclass(frozen=True, kw_only=True)
class CoverageRecord:
    """What the GEMMs of one measured step ran in.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        rows: one for each site, GEMM, format and engine; recomputed GEMMs are left out.
        uncovered: GEMMs that ran outside the recipe, by name.
    """

    recipe: str
    seed: int
    rows: tuple[CoverageRow, ...]
    uncovered: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MemoryRecord:
    """Memory of one measured step [bytes].

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        saved_activation_bytes: what autograd kept for the backward pass, parameters left out.
        peak_bytes: most live tensor storage during the step.
        rss_bytes: resident set of the process, with everything else that it holds.
        parameters: numbers in the model's parameters; ``None`` (as the following) in lines of schema version 1.
        bytes_by_kind: weights, masters, moments, gradients at their most, saved activations and so on.
        saved_by_site: saved activations by the module that saved them first.
    """

    recipe: str
    seed: int
    saved_activation_bytes: int
    peak_bytes: int
    rss_bytes: int
    parameters: int | None = None
    bytes_by_kind: Mapping[str, int] | None = None
    saved_by_site: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class StatisticsRecord:
    """What a format does to one tensor of one step.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: applied steps before it.
        site: module path, or a parameter's name.
        role: ``"input"``, ``"weight"`` or ``"grad_output"`` of a GEMM, ``"output"`` of a module, or ``"gradient"`` of a
            parameter (unscaled).
        cast: the cast's one-line form, or a dtype's short name.
        in_use: whether the tensor was rounded so; False for a what-if.
        elements: how many.
        zeros: share of them that are zero before the cast.
        nonfinite: how many are inf or NaN.
        amax: largest finite magnitude.
        flushed: share of the non-zero elements that become zero.
        subnormal: share of the non-zero elements that become a subnormal number of the format.
        saturated: share of the elements beyond the format's range under their scale.
        sqnr_db: mean square over mean squared error [dB]; inf if nothing changed.
        relative_error: sum of the errors' magnitudes over the sum of the magnitudes.
        bias: sum of the errors (in direction of the element: positive, where magnitudes grow) over the sum of the
            magnitudes.
        exponents: how many elements have floor(log2 |x|) = the key; zeros left out.
    """

    recipe: str
    seed: int
    step: int
    site: str
    role: str
    cast: str
    in_use: bool
    elements: int
    zeros: float
    nonfinite: int
    amax: float
    flushed: float
    subnormal: float
    saturated: float
    sqnr_db: float
    relative_error: float
    bias: float
    exponents: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class UpdateRecord:
    """What one applied step did to one parameter.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: applied steps before it.
        site: the parameter's name.
        dtype: of the weight that the model multiplies by.
        weight_norm: 2-norm of the weight before the step.
        gradient_norm: 2-norm of its gradient, unscaled, before clipping.
        update_norm: 2-norm of what the optimizer asked for (of the full weight's change).
        ratio: ``update_norm / weight_norm``; 0 for a weight of zeros.
        lost: share of the elements whose full weight was to change and whose kept weight did not; 0 with a master,
            whose 16-bit copy may stand still while the master moves.
    """

    recipe: str
    seed: int
    step: int
    site: str
    dtype: str
    weight_norm: float
    gradient_norm: float
    update_norm: float
    ratio: float
    lost: float


@dataclass(frozen=True, kw_only=True)
class FindingRecord:
    """Something that is wrong with a run, or will be; by an alarm, the locator, a check or the doctor.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        step: applied steps before it.
        name: its kind, e.g. ``"loss spike"``; the documented list is in ``docs/monitor.md``.
        severity: ``"fault"``: numbers are wrong; ``"warning"``: they will be, or quality suffers; ``"note"``: ordinary.
        site: module path and role, or a parameter's name; empty where it has none.
        message: one sentence.
        evidence: what was measured, by name.
        threshold: what it was compared with, in words.
        remedy: what to do, in words.
        rule: what to add to the recipe, as TOML; empty where the remedy is none of the recipe's.
    """

    recipe: str
    seed: int
    step: int
    name: str
    severity: Severity
    site: str
    message: str
    evidence: Mapping[str, float | str]
    threshold: str = ""
    remedy: str = ""
    rule: str = ""


@dataclass(frozen=True, kw_only=True)
class IncidentRecord:
    """What a guard saw, and what it did about it.

    It is written before anything is done, and written again where more is known: of two with the same ``number`` the
    later stands. A run that goes on from an earlier step keeps its incidents, whatever becomes of its steps.

    Attributes:
        recipe: the recipe's name.
        seed: the seed.
        number: of the run's incidents, counted from 1.
        step: applied steps before it.
        trigger: what was seen, e.g. ``"loss spike"``; the documented list is in ``docs/guard.md``.
        site: module path and role, or a parameter's name; empty where none is known.
        evidence: what was measured, by name.
        rung: what was done, by kind.
        action: what was done, in a sentence.
        back_to: step that the run went back to; ``None``: it did not.
        batches: numbers of the batches that were left out.
        lost_steps: applied steps whose work was given up, and skipped ones.
        lost_seconds: what the incident has cost [s]: the way back and the steps given up.
        outcome: what came of it.
        resolved: applied steps at which ``outcome`` was decided; ``None`` while it is open.
    """

    recipe: str
    seed: int
    number: int
    step: int
    trigger: str
    site: str
    evidence: Mapping[str, float | str]
    rung: Rung
    action: str
    back_to: int | None = None
    batches: tuple[int, ...] = ()
    lost_steps: int = 0
    lost_seconds: float = 0.0
    outcome: IncidentOutcome = "open"
    resolved: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunEndRecord:
    """How one recipe's run under one seed ended, and why where it did not end well."""

    recipe: str
    seed: int
    status: Status
    reason: str = ""


Record = (
    ComparisonRecord
    | StepRecord
    | EvaluationRecord
    | EventRecord
    | CoverageRecord
    | MemoryRecord
    | StatisticsRecord
    | UpdateRecord
    | FindingRecord
    | IncidentRecord
    | RunEndRecord
)

#: The word of each kind's ``"type"`` in a line.
RECORD_TYPES: Mapping[str, type[Record]] = {
    "comparison": ComparisonRecord,
    "step": StepRecord,
    "evaluation": EvaluationRecord,
    "event": EventRecord,
    "coverage": CoverageRecord,
    "memory": MemoryRecord,
    "statistics": StatisticsRecord,
    "update": UpdateRecord,
    "finding": FindingRecord,
    "incident": IncidentRecord,
    "end": RunEndRecord,
}
