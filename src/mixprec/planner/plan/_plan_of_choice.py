"""The plan that a choice comes down to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...specs import Layer, LayerPrecision, Recipe
from .._candidate import KEEP, Candidate
from .._choice import Choice, Option
from .._scores import Scores
from ._compile import compile_rules
from ._evidence import Evidence, GroupEvidence, Predicted
from ._plan import Plan
from ._reasons import Reasons


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a plan was asked for, and where.

    Attributes:
        name: of the plan's recipe.
        workload: that was measured.
        seed: of it.
        trained_steps: that were taken before measuring.
        hardware: that times are predicted for.
        validated: whether such predictions were compared with measurements on it.
        minimise: what the search made least.
        limits: that it kept.
    """

    name: str
    workload: str
    seed: int = 0
    trained_steps: int = 0
    hardware: str
    validated: bool = False
    minimise: str = "seconds"
    limits: Mapping[str, float]


def plan_of_choice(
    asked: Asked,
    base: Recipe,
    candidates: Sequence[Candidate],
    layers: Mapping[str, Layer],
    scores: Scores,
    options: Sequence[Option],
    choice: Choice,
) -> Plan:
    """Write a choice as a recipe with its reasons.

    Args:
        asked: what for.
        base: whose rules are replaced; what ``"keep"`` means.
        candidates: by whose names was chosen.
        layers: all that rules can be about, by site.
        scores: that the options come from.
        options: what was chosen from.
        choice: what was chosen.

    Raises:
        ValueError: two groups hold one site, or no rules give a site what was chosen.
    """
    precisions = {candidate.name: candidate.precision for candidate in candidates} | {KEEP: None}
    chosen: dict[str, LayerPrecision | None] = {}
    for group in scores.groups:
        for site in group.sites:
            if site in chosen:
                raise ValueError(f"site {site} is in two groups: expected each in one")
            chosen[site] = precisions[choice.candidates[group.name]]
    recipe = replace(
        base,
        name=asked.name,
        rules=compile_rules(layers, chosen),
        phases=(),
        reason=f"planned for {asked.workload} on {asked.hardware}: {_tally(choice)}",
    )
    return Plan(recipe=recipe, evidence=_evidence(asked, base, scores, options, choice))


def _evidence(asked: Asked, base: Recipe, scores: Scores, options: Sequence[Option], choice: Choice) -> Evidence:
    reasons = Reasons(choice, asked.minimise, asked.limits)
    by_group = {group.name: [o for o in options if o.group == group.name] for group in scores.groups}
    groups: list[GroupEvidence] = [reasons.of(g.name, g.sites, by_group[g.name]) for g in scores.groups]
    kept = [option for option in options if option.candidate == KEEP]
    return Evidence(
        workload=asked.workload,
        seed=asked.seed,
        trained_steps=asked.trained_steps,
        batches=scores.batches,
        loss=scores.loss,
        base=base.name,
        hardware=asked.hardware,
        minimise=asked.minimise,
        limits=dict(asked.limits),
        binding=choice.binding,
        groups=tuple(groups),
        predicted=Predicted(
            loss=choice.loss,
            seconds=choice.seconds,
            keep_seconds=sum(option.seconds for option in kept),
            bytes=choice.bytes,
            keep_bytes=sum(option.bytes for option in kept),
            validated=asked.validated,
        ),
        notes=scores.notes,
    )


def _tally(choice: Choice) -> str:
    """How many groups have what.

    Example:
        >>> _tally(Choice(candidates={"a": "keep", "b": "mxfp8", "c": "mxfp8"}, loss=0, seconds=0, bytes=0))
        '1 keep, 2 mxfp8'
    """
    names = sorted(choice.candidates.values())
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
