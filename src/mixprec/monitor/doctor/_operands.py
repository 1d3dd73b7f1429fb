"""What formats did to a run's tensors: saturation, underflow and noise over the samples, and a better cast for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

from ...formats import get_format
from ...records import StatisticsRecord
from ...specs import Cast, Recipe, parse_cast
from .._finding import Finding
from ..alarms import Alarms, Thresholds
from ._contents import OneRun, RunContents
from ._rules import cast_rule, compute_rule, goes_with, with_rule

_ROLES = ("input", "weight", "grad_output")
_PLAIN = ("fp32", "bf16", "fp16")
_OF_KIND = {"flushed": "flushed", "saturated": "saturated", "noise": "sqnr_db"}


def operand_findings(run: OneRun, contents: RunContents, thresholds: Thresholds) -> list[Finding]:
    """The alarms of every sample, told with what became of it later, and with a rule in the recipe's own terms."""
    alarms, found = Alarms(thresholds), list[Finding]()
    for _, records in groupby(run.statistics, key=lambda record: record.step):
        found += alarms.statistics(records)
    recipe = contents.recipes.get(run.recipe)
    told: list[Finding] = []
    for finding in found:
        told.append(_over_time(finding, run.statistics, recipe, thresholds))
        if told[-1].rule and goes_with(recipe, told[-1].rule):  # a later one of the same layer builds on it
            recipe = None if recipe is None else with_rule(recipe, told[-1].rule)
    return [*_not_finite(run.statistics), *_one_rule_a_layer(told)]


def _one_rule_a_layer(findings: Sequence[Finding]) -> list[Finding]:
    """A layer's rule once, with what its last finding asks for too: of two rules about one layer the second is dead."""
    last = {_layer(finding): finding.rule for finding in findings if finding.rule}
    first: dict[str, str] = {}
    merged: list[Finding] = []
    for finding in findings:
        if not finding.rule:
            merged.append(finding)
        elif _layer(finding) in first:
            remedy = f"{finding.remedy} (in the rule for {first[_layer(finding)]})"
            merged.append(replace(finding, remedy=remedy, rule=""))
        else:
            first[_layer(finding)] = finding.site
            merged.append(replace(finding, rule=last[_layer(finding)]))
    return merged


def _layer(finding: Finding) -> str:
    return finding.site.rpartition(" (")[0]


def _not_finite(records: Sequence[StatisticsRecord]) -> list[Finding]:
    """The first sampled step in which a tensor held inf or NaN."""
    bad = [record for record in records if record.nonfinite and record.in_use]
    if not bad:
        return []
    first = [record for record in bad if record.step == bad[0].step]
    names = list(dict.fromkeys(f"{record.site} ({record.role})" for record in first))
    return [
        Finding(
            step=first[0].step,
            name="non-finite operand",
            severity="fault",
            site=names[0],
            message=f"{first[0].nonfinite} of its {first[0].elements} elements are inf or NaN"
            + (f", as in {len(names) - 1} more tensors of the step ({', '.join(names[1:4])})" if names[1:] else ""),
            evidence={"not finite": float(first[0].nonfinite), "tensors": float(len(names)), "amax": first[0].amax},
            threshold="none",
            remedy="replay the step: `mixprec doctor RUN --workload FILE` names the operation that made the first",
        )
    ]


def _over_time(
    finding: Finding, records: Sequence[StatisticsRecord], recipe: Recipe | None, thresholds: Thresholds
) -> Finding:
    """The finding with the median, the worst and the last of its samples, and its rule."""
    site, _, role = finding.site.removesuffix(")").rpartition(" (")
    own = [r for r in records if (r.site, r.role) == (site, role)]
    in_use = [r for r in own if r.in_use]
    kind = finding.name.removeprefix("rising ")
    if not in_use or kind not in _OF_KIND:
        return finding
    values = [float(getattr(r, _OF_KIND[kind])) for r in in_use]
    worst = min(values) if kind == "noise" else max(values)
    evidence = {**finding.evidence, "samples": float(len(values)), "median": median(values), "worst": worst}
    told = replace(finding, evidence={**evidence, "last": values[-1]})
    if role not in _ROLES or in_use[-1].cast in _PLAIN:
        return told
    return _remedied(told, own, site, role, recipe, thresholds)


def _remedied(
    finding: Finding,
    own: Iterable[StatisticsRecord],
    site: str,
    role: str,
    recipe: Recipe | None,
    thresholds: Thresholds,
) -> Finding:
    """The first cast that the recipe can give the operand: as measured by a what-if, else a current scale."""
    records = list(own)
    now = _read(next(r.cast for r in reversed(records) if r.in_use))
    measured = _measured(records, thresholds)
    bits = 0 if now is None else get_format(now.element).bits
    # What costs nothing first: as many bits as now, or more; fewer, where all else does not go.
    as_wide = [way for way in measured if get_format(way[0].element).bits >= bits]
    narrower = [way for way in measured if way not in as_wide]
    for better, why in (*as_wide, *_current(now), *narrower):
        rule = "" if now is None else cast_rule(site, role, better, recipe, now)
        if rule:
            return replace(finding, remedy=f"{better} for this operand: {why}", rule=rule)
    rule = compute_rule(site)
    remedy = "leave this layer in the compute dtype" if rule else finding.remedy
    return replace(finding, remedy=remedy, rule=rule)


def _measured(records: Sequence[StatisticsRecord], at: Thresholds) -> list[tuple[Cast, str]]:
    """Casts whose what-ifs stayed within the thresholds in every sample; those of the fewest bits first."""
    by_cast: dict[str, list[StatisticsRecord]] = {}
    for record in records:
        if not record.in_use and record.cast not in _PLAIN:
            by_cast.setdefault(record.cast, []).append(record)
    fitting: list[tuple[int, float, Cast, str]] = []
    for text, own in by_cast.items():
        cast = _read(text)
        flushed, saturated = max(r.flushed for r in own), max(r.saturated for r in own)
        noise = min(r.sqnr_db for r in own)
        if cast is None or flushed > at.flushed or saturated > at.saturated or noise < at.sqnr_db:
            continue
        why = (
            f"measured beside it in {len(own)} samples: {100 * flushed:.2g} % flushed, {100 * saturated:.2g} % "
            f"saturated, {noise:.3g} dB at worst"
        )
        fitting.append((get_format(cast.element).bits, -noise, cast, why))
    return [(cast, why) for _, _, cast, why in sorted(fitting, key=lambda one: one[:2])]


def _current(now: Cast | None) -> list[tuple[Cast, str]]:
    """A delayed scale's cast with the tensor's own amax."""
    if now is None or now.delayed is None:
        return []
    return [(replace(now, delayed=None), "the same format with a current scale instead of a delayed one")]


def _read(text: str) -> Cast | None:
    try:
        return parse_cast(text)
    except ValueError:
        return None
