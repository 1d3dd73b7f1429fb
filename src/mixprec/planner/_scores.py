"""What each candidate would do to each group of sites, measured in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CandidateScore:
    """What a candidate does to a group.

    Attributes:
        loss: predicted change of the loss on data like these, from the forward products [units of the loss]:
            ``curvature``, ``beyond`` and what is believed of ``slope``; below 0 where rounding happens to help.
        curvature: the second order of it, at least 0.
        beyond: what orders beyond the second add, of a cross-entropy where errors are as large as its margins.
        slope: the first order of it, as measured: ``curvature + beyond + slope`` is the change on the measured batches.
        slope_error: standard error of ``slope`` for other data, from the spread between samples; infinite where
            each batch has only one.
        gradient_error: error of the weight's gradient over the gradient's norm, one draw.
        gradient_bias: the part of it that does not average out.
        gradient_noise: the gradient's own noise over micro-batches, over its norm; what the two above stand beside.
        output_error: squared error of the output over its square: the usual measure, which does not rank layers.
    """

    loss: float
    curvature: float = 0.0
    beyond: float = 0.0
    slope: float = 0.0
    slope_error: float = 0.0
    gradient_error: float = 0.0
    gradient_bias: float = 0.0
    gradient_noise: float = 0.0
    output_error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class GroupScores:
    """Sites that decide together, since they share an input or a weight.

    Attributes:
        name: the first site.
        sites: module paths, and what is called there for a function.
        kinds: of each site, as a rule's ``type`` would ask: ``"Linear"``, ``"Conv2d"``, ``"qk"``, ...
        candidates: scores by the candidate's name; ``"keep"`` is all zeros.
        is_dead: whether the gradient of its output was zero in every batch: nothing is known of it then.
    """

    name: str
    sites: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    candidates: Mapping[str, CandidateScore]
    is_dead: bool = False


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a model.

    Attributes:
        loss: the mean loss of the batches that were measured, unrounded.
        batches: how many.
        groups: in the order of the model.
        together: predicted change of the loss where every group has a candidate, by its name: what errors of one
            layer do to those of others included, which a sum over the groups leaves out.
        seconds: what measuring cost, that pass included.
        step_seconds: what a plain forward and backward pass over the first batch takes, measured before.
        notes: what was left out, and why.
    """

    loss: float
    batches: int
    groups: tuple[GroupScores, ...]
    together: Mapping[str, float] = field(default_factory=dict[str, float])
    seconds: float
    step_seconds: float
    notes: tuple[str, ...] = field(default=())
