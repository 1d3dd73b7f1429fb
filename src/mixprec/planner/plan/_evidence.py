"""Why a plan is what it is: what was measured, predicted, chosen and left, and what the proof showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ...formats import unknown_name
from .._choice import Option

#: Whether what was measured keeps a target.
Verdict = Literal["met", "missed", "not resolved"]

_STRICT: Mapping[str, object] = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class GroupEvidence:
    """What a group of sites was given, and what else it could have had.

    Attributes:
        name: of the group: its first site.
        sites: that decide together.
        candidate: what was chosen.
        reason: why, in a sentence.
        runner_up: what was nearest to being chosen instead; empty where nothing else was possible.
        why_not: why it was not, in a sentence.
        options: every candidate with its predictions, those that were barred too.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    name: str
    sites: tuple[str, ...]
    candidate: str
    reason: str = ""
    runner_up: str = ""
    why_not: str = ""
    options: tuple[Option, ...] = ()

    @property
    def chosen(self) -> Option:
        """The option that was chosen.

        Raises:
            ValueError: it is not among the options.
        """
        for option in self.options:
            if option.candidate == self.candidate:
                return option
        raise unknown_name(f"candidate of group {self.name}:", self.candidate, [o.candidate for o in self.options])


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What a plan is predicted to cost and gain.

    Attributes:
        loss: change of the loss, the sum over the groups [units of the loss].
        seconds: of a step of the products and casts that were chosen for.
        keep_seconds: of the same with everything kept in the compute dtype.
        bytes: of saved activations that depend on the choice.
        keep_bytes: of the same with everything kept.
        validated: whether predictions of time for this hardware were compared with measurements on it.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    loss: float
    seconds: float
    keep_seconds: float
    bytes: int
    keep_bytes: int
    validated: bool = False


@dataclass(frozen=True, kw_only=True)
class SiteCheck:
    """A group quantized alone: the change of the held-out loss, beside what was predicted."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    group: str
    candidate: str
    predicted: float
    measured: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the proof showed.

    Attributes:
        checks: the doubtful groups, each quantized alone.
        loss_change: of the held-out loss, all groups quantized at once, before any training under the plan.
        gap: of the held-out loss after the paired run, plan less baseline, mean over the pairs.
        gap_low: lower end of its 95 % interval; the gap itself with one pair.
        gap_high: upper end.
        pairs: paired runs.
        steps: of each.
        step_ratio: median time of a step over the baseline's, on the machine that ran it.
        memory_ratio: peak of memory over the baseline's.
        verdicts: by target.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    checks: tuple[SiteCheck, ...] = ()
    loss_change: float | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    pairs: int = 0
    steps: int = 0
    step_ratio: float | None = None
    memory_ratio: float | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a plan took to make, on the machine that made it.

    Attributes:
        step_seconds: of a plain forward and backward pass over a batch.
        scores_seconds: of measuring candidates on the model.
        other_seconds: of tracing steps for times and bytes, and of the search: they compute nothing of the model, and
            take as long for wide layers as for narrow ones.
        proof_seconds: of the proof; ``None`` before it.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    step_seconds: float
    scores_seconds: float
    other_seconds: float = 0.0
    proof_seconds: float | None = None

    @property
    def steps(self) -> float:
        """What measuring took, in steps of the model.

        Example:
            >>> Spent(step_seconds=0.03, scores_seconds=0.21, other_seconds=5.0).steps
            7.0
        """
        return self.scores_seconds / self.step_seconds


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that a plan rests on.

    Attributes:
        workload: that was measured.
        seed: of it.
        trained_steps: that were taken before measuring.
        batches: that were measured.
        loss: their mean loss, before any rounding.
        base: the recipe that ``"keep"`` means.
        hardware: that times are predicted for.
        minimise: what the search made least.
        limits: that it kept.
        binding: those that held it back.
        targets: as they were given.
        groups: what each was given.
        predicted: of the whole.
        measured: by the proof; ``None`` before it.
        spent: what all of it took; ``None`` where that was not timed.
        machine: that measured.
        versions: of packages.
        notes: what was left out, and why.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    workload: str
    seed: int
    trained_steps: int
    batches: int
    loss: float
    base: str
    hardware: str
    minimise: str
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    binding: tuple[str, ...] = ()
    targets: Mapping[str, object] = field(default_factory=dict[str, object])
    groups: tuple[GroupEvidence, ...]
    predicted: Predicted
    measured: Measured | None = None
    spent: Spent | None = None
    machine: Mapping[str, str | int | float] = field(default_factory=dict[str, "str | int | float"])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()

    def group_of(self, site: str) -> GroupEvidence:
        """What the group of a site was given.

        Raises:
            ValueError: no group has the site; near names are offered.
        """
        for group in self.groups:
            if site == group.name or site in group.sites:
                return group
        raise unknown_name("site of this plan:", site, [site for group in self.groups for site in group.sites])
