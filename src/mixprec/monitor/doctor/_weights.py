"""What steps did to a run's weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from ...specs import Recipe
from .._finding import Finding
from ..alarms import Alarms, Thresholds
from ._contents import OneRun, RunContents
from ._rules import goes_with

_MASTER = 'weights = "master"\n'


def weight_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """Parameters whose updates are lost: by the sampled updates, and by what a session told of them."""
    alarms, found = Alarms(thresholds), list[Finding]()
    for _, records in groupby(run.updates, key=lambda record: record.step):
        found += alarms.updates(records)
    known = {finding.site for finding in found}
    found += [
        Finding(
            step=event.step,
            name="stalled weights",
            severity="warning",
            site=event.site,
            message=event.message,
            remedy="keep the weights with an fp32 master, or by stochastic rounding, Kahan compensation or split",
            rule=_MASTER,
        )
        for event in run.events
        if event.name == "update too small" and event.site not in known
    ]
    return [_checked(finding, contents.recipes.get(run.recipe)) for finding in found]


def _checked(finding: Finding, recipe: Recipe | None) -> Finding:
    """Without a rule that the recipe has already, or cannot have."""
    if recipe is not None and (recipe.weights == "master" or not goes_with(recipe, finding.rule)):
        return replace(finding, rule="")
    return finding
