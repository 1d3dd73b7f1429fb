"""What a run's curves tell: the alarms that a running monitor would have raised, and the share of skipped steps."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

from ...records import StepRecord
from ...specs import Recipe
from .._finding import Finding
from ..alarms import Alarms, Thresholds
from ._contents import OneRun, RunContents
from ._rules import goes_with

#: Share of a run's steps that a dynamic loss scale may skip: twice the one in 2,000 that probing costs, and its way
#: down from its start, stay far below it in any run worth looking at.
_SKIPPED = 0.05
#: Steps from which on a share of them means something.
_ENOUGH = 20
_TO_BF16 = 'compute_dtype = "bf16"\n\n[loss_scale]\nkind = "none"\n'
_TO_DYNAMIC = '[loss_scale]\nkind = "dynamic"\n'


def curve_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """Loss, gradient norm and loss scale, step by step."""
    alarms, found = defaultdict[str, Alarms](lambda: Alarms(thresholds)), list[Finding]()
    knows_losses = any(not math.isnan(record.curve_loss) for record in run.steps)
    for record in run.steps:
        found += alarms[record.turn].step(
            step=record.step,
            loss=record.loss if knows_losses and _is_known(record) else None,
            grad_norm=record.grad_norm,
            loss_scale=record.loss_scale,
            applied=record.applied,
        )
    recipe = contents.recipes.get(run.recipe)
    found += [*_floor(run, recipe), *_skipped(run, recipe)]
    return [_with_remedy(finding, run, recipe) for finding in found]


def _is_known(record: StepRecord) -> bool:
    """Records of earlier versions say NaN where no loss is known: so does one of a step with finite gradients."""
    was_told = not math.isnan(record.curve_loss)
    return was_told or not record.applied or record.grad_norm is None or not math.isfinite(record.grad_norm)


def _floor(run: OneRun, recipe: Recipe | None) -> list[Finding]:
    """A dynamic loss scale that can shrink no further."""
    if recipe is None or recipe.loss_scale.kind != "dynamic":
        return []
    least = recipe.loss_scale.minimum
    at_floor = [record for record in run.steps if record.loss_scale is not None and record.loss_scale <= least]
    if not at_floor:
        return []
    return [
        Finding(
            step=at_floor[0].step,
            name="loss scale at floor",
            severity="fault",
            message=f"the loss scale fell to its floor {least:g}, and {len(at_floor)} steps ran under it: gradients "
            "that are not finite even so come from the data, the loss or the weights, not from the scale",
            evidence={"loss scale": least, "steps": float(len(at_floor))},
            threshold=f"the recipe's minimum, {least:g}",
            remedy="find the first operation that is not finite (`mixprec doctor RUN --workload FILE` replays the "
            "step, session.locate() names it); where it is an overflow of fp16, bf16 has fp32's range",
        )
    ]


def _skipped(run: OneRun, recipe: Recipe | None) -> list[Finding]:
    """Many steps that were skipped, in a row or not."""
    skipped = [record for record in run.steps if not record.applied]
    share = len(skipped) / len(run.steps) if run.steps else 0.0
    if len(run.steps) < _ENOUGH or share <= _SKIPPED:
        return []
    is_static = recipe is not None and recipe.loss_scale.kind == "static"
    remedy = "a dynamic loss scale finds the largest that fits" if is_static else "see the reasons of the skipped steps"
    return [
        Finding(
            step=skipped[0].step,
            name="many skipped steps",
            severity="warning",
            message=f"{len(skipped)} of {len(run.steps)} steps were skipped ({100 * share:.3g} %): their batches "
            "taught nothing",
            evidence={"skipped": float(len(skipped)), "steps": float(len(run.steps))},
            threshold=f"{100 * _SKIPPED:g} % of the steps",
            remedy=remedy,
            rule=_TO_DYNAMIC if is_static else "",
        )
    ]


_OVERFLOWS = ("loss scale collapse", "loss scale at floor", "steps skipped in a row")


def _with_remedy(finding: Finding, run: OneRun, recipe: Recipe | None) -> Finding:
    """What leaves fp16's range behind, where gradients overflowed it: the losses of the steps are finite."""
    if finding.rule or finding.name not in _OVERFLOWS or recipe is None or recipe.compute_dtype != "fp16":
        return finding
    if recipe.loss_scale.kind == "static":  # whose remedy is told: a dynamic one
        return finding
    skipped = [record.loss for record in run.steps if not record.applied and record.step <= finding.step]
    if not all(loss is None or math.isfinite(loss) for loss in skipped):
        return finding
    return replace(finding, rule=_TO_BF16) if goes_with(recipe, _TO_BF16) else finding
