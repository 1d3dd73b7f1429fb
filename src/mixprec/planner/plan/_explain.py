"""A plan in words."""

from __future__ import annotations

from collections.abc import Sequence

from .._choice import Option
from ._evidence import Evidence, GroupEvidence, Measured, Predicted, Spent
from ._plan import Plan


def explain(plan: Plan, site: str | None = None) -> str:
    """Tell why a plan is what it is: of one site everything, of all the most important.

    Args:
        plan: as ``Plan.load`` gives it.
        site: whose reasons are told; ``None``: a line for each group, and the proof.

    Raises:
        ValueError: the plan has no such site.
    """
    evidence = plan.evidence
    if site is not None:
        return "\n".join(_group(evidence.group_of(site), evidence))
    lines = [*_head(plan), "", *(_line(group) for group in evidence.groups)]
    return "\n".join([*lines, *_notes(evidence.notes)])


def _head(plan: Plan) -> list[str]:
    evidence = plan.evidence
    limits = ", ".join(f"{name} at most {most:.4g}" for name, most in evidence.limits.items()) or "no limits"
    binding = f"; held back by {' and '.join(evidence.binding)}" if evidence.binding else ""
    return [
        f"{plan.recipe.name}: least {evidence.minimise} on {evidence.hardware} under {limits}{binding}",
        f"measured on {evidence.workload} after {evidence.trained_steps} steps, {evidence.batches} batches, "
        f"loss {evidence.loss:.4g}",
        f"predicted: {_predicted(evidence.predicted)}",
        f"measured:  {_measured(evidence.measured)}",
        *([] if evidence.spent is None else [_spent(evidence.spent)]),
    ]


def _predicted(predicted: Predicted) -> str:
    time = _ratio(predicted.seconds, predicted.keep_seconds)
    size = _ratio(predicted.bytes, predicted.keep_bytes)
    told = "" if predicted.validated else " (not validated)"
    return (
        f"loss +{predicted.loss:.3g}; products {predicted.seconds * 1e3:.3g} ms{told}, {time} of all kept; "
        f"saved activations {predicted.bytes:,} bytes, {size}"
    )


def _measured(measured: Measured | None) -> str:
    if measured is None:
        return "not yet proved"
    parts: list[str] = []
    if measured.loss_change is not None:
        parts.append(f"loss {measured.loss_change:+.3g} on held-out data by rounding alone")
    if measured.gap is not None:
        low, high = measured.gap_low, measured.gap_high
        interval = f" [{low:+.3g}, {high:+.3g}]" if low is not None and high is not None else ""
        parts.append(f"gap {measured.gap:+.3g}{interval} after {measured.steps} steps, {measured.pairs} pairs")
    if measured.step_ratio is not None:
        parts.append(f"step {measured.step_ratio:.2f}x here")
    if measured.memory_ratio is not None:
        parts.append(f"memory {measured.memory_ratio:.2f}x")
    parts += [f"{name}: {verdict}" for name, verdict in measured.verdicts.items()]
    return "; ".join(parts) or "nothing"


def _spent(spent: Spent) -> str:
    proof = "" if spent.proof_seconds is None else f"; proof {spent.proof_seconds:.3g} s"
    return (
        f"planning cost {spent.steps:.1f} steps of this model ({spent.scores_seconds:.3g} s; a forward and backward "
        f"pass takes {spent.step_seconds:.3g} s), and {spent.other_seconds:.3g} s of tracing and search{proof}"
    )


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.2f}x" if whole else "-"


def _line(group: GroupEvidence) -> str:
    others = len(group.sites) - 1
    more = f" and {others} more" if others else ""
    return f"{group.name}{more}: {group.candidate}; {group.reason}"


def _group(group: GroupEvidence, evidence: Evidence) -> list[str]:
    lines = [f"{group.name}: {group.candidate}, {group.reason}"]
    if len(group.sites) > 1:
        lines.append(f"  decides together: {', '.join(group.sites)}")
    if group.runner_up:
        lines.append(f"  runner-up {group.runner_up}: {group.why_not}")
    lines += [f"  {_option(option, group.candidate)}" for option in group.options]
    for check in evidence.measured.checks if evidence.measured else ():
        if check.group == group.name:
            lines.append(
                f"  proof: {check.candidate} alone changed the held-out loss by {check.measured:+.3g}, "
                f"predicted {check.predicted:+.3g}"
            )
    return lines


def _option(option: Option, chosen: str) -> str:
    mark = "*" if option.candidate == chosen else " "
    if option.barred:
        return f"{mark} {option.candidate}: barred, {option.barred}"
    return f"{mark} {option.candidate}: loss +{option.loss:.3g}, {option.seconds * 1e3:.3g} ms, {option.bytes:,} bytes"


def _notes(notes: Sequence[str]) -> list[str]:
    return ["", *(f"note: {note}" for note in notes)] if notes else []
