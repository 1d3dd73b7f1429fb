"""What is to be done after an incident: by what the guard did, and by what it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ....records import FindingRecord, Rung, markdown_text
from ....specs import ROLES
from .._rules import compute_rule, goes_with
from ._case import Case
from ._widened import widened_rules, widened_sites

#: Batches that are named one by one.
_NAMED = 12
#: Steps around an incident in which a finding is taken for one of the same fault.
_NEAR = 20


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to do.

    Attributes:
        sentences: one after another.
        rule: what to put into the recipe before its own rules, as TOML; empty where nothing is known to help.
        about: a sentence that the rule stands under.
    """

    sentences: tuple[str, ...]
    rule: str = ""
    about: str = ""


def advise(case: Case) -> Advice:
    """What to do after an incident."""
    by_rung = _BY_RUNG[case.incident.rung](case)
    sentences = (*_outcome(case), *by_rung.sentences, *_by_trigger(case), *_dumps(case))
    return replace(by_rung, sentences=sentences)


def _tell(case: Case) -> Advice:
    return Advice(sentences=("The guard was set to tell only: nothing was done. Give it a rung if it comes again.",))


def _clip(case: Case) -> Advice:
    return Advice(
        sentences=(
            f"The step was taken with a smaller gradient. Look at its batch, the one of step {case.incident.step}; "
            "where this comes often, clip always or lower the learning rate.",
        )
    )


def _scale(case: Case) -> Advice:
    return Advice(
        sentences=(
            "A loss scale that moves once is ordinary. Where it comes again, start the next run at the scale that "
            'held, or without one: `compute_dtype = "bf16"` has the range of fp32.',
        )
    )


def _skip(case: Case) -> Advice:
    return Advice(sentences=_batches(case))


def _rewind(case: Case) -> Advice:
    if not case.incident.batches:
        return Advice(sentences=("The same batches were taken again from the state before it, and none is blamed.",))
    return Advice(
        sentences=(
            *_batches(case),
            "Where they are sound, they only met what the numbers could not hold: the same will come again at other "
            "batches, as a linked incident.",
        )
    )


def _escalate(case: Case) -> Advice:
    rule, sites = widened_rules(case), widened_sites(case)
    batches = _batches(case) if case.incident.batches else ()
    if rule:
        about = "In the recipe, before its own rules, so that the next run starts with it:"
        return Advice(sentences=batches, rule=rule, about=about)
    which = (
        ", ".join(f"`{site}`" for site in sites or (case.incident.site,) if site) or "the sites that the action names"
    )
    told = f"Give {which} the wider casts in the recipe, so that the next run starts with them"
    whole = f"{told} ({markdown_text('; '.join(sites.values()))})." if sites else f"{told}."
    return Advice(sentences=(*batches, whole))


def _stop(case: Case) -> Advice:
    checkpoint = case.contents.checkpoint
    left = (
        "No checkpoint was saved: the run begins anew."
        if checkpoint is None
        else f"What remains is the checkpoint of step {checkpoint}, from which the same command goes on."
    )
    rule, about = _known_rule(case)
    return Advice(sentences=(left, "Change something first, or it ends here again."), rule=rule, about=about)


_BY_RUNG: Mapping[Rung, Callable[[Case], Advice]] = MappingProxyType(
    {
        "tell": _tell,
        "clip": _clip,
        "scale": _scale,
        "skip": _skip,
        "rewind": _rewind,
        "escalate": _escalate,
        "stop": _stop,
    }
)

#: Words of a trigger, and what they ask for beside what the rung does; the first that fits is told.
_TRIGGERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("weight not finite", "moment not finite", "weight jump"),
        "Weights and moments that no step explains were written by something else: other code of the loop, or a fault "
        "of memory or of the device. Where it comes again on one machine, try another.",
    ),
    (
        ("not finite", "non-finite"),
        "`mixprec doctor {run} --workload FILE --step {step}` replays the step and names the operation that made its "
        "first bad value.",
    ),
    (("learning-rate",), "Look at the learning rate's schedule around this step."),
    (
        ("spike", "rise"),
        "A loss or norm that rises on sound batches says that the learning rate is too high there: lower it or warm up "
        "for longer.",
    ),
    (
        ("overflow", "vanish", "loss scale", "skipped"),
        "Where skipped steps follow one another, `mixprec doctor {run}` says which gradient is not finite.",
    ),
    (
        ("saturated", "flushed", "nois", "outlier"),
        "`mixprec doctor {run}` tells which casts the sampled tensors of this layer fit in.",
    ),
    (
        ("gap", "shadow", "baseline", "drift"),
        "That is what the precision alone costs: `mixprec plan` finds the layers that pay for it, and a late phase in "
        "wider casts wins most of it back.",
    ),
)


def _outcome(case: Case) -> tuple[str, ...]:
    return {
        "open": ("It is not decided yet whether this has helped.",),
        "again": ("It came again: the linked incidents tell what was done then.",),
        "rehearsed": ("This was a rehearsal: nothing was done, and the run went on as it would have without a guard.",),
    }.get(case.incident.outcome, ())


def _batches(case: Case) -> tuple[str, ...]:
    batches = case.incident.batches
    if not batches:
        return (f"Look at the batch of step {case.incident.step}.",)
    named = ", ".join(map(str, batches[:_NAMED])) + (f" and {len(batches) - _NAMED} more" if batches[_NAMED:] else "")
    return (
        f"Look at the batches that were left out: {named}. In a workload `batches(N)` gives them. Rubbish in them is "
        "mended in the data.",
    )


def _by_trigger(case: Case) -> tuple[str, ...]:
    trigger = case.incident.trigger
    told = next((text for words, text in _TRIGGERS if any(word in trigger for word in words)), "")
    return (told.format(run=case.contents.path, step=case.incident.step),) if told else ()


def _dumps(case: Case) -> tuple[str, ...]:
    """What the flight recorder kept of it."""
    first = case.incident.step if case.incident.back_to is None else case.incident.back_to
    near = [
        path
        for path, dump in case.contents.dumps.items()
        if (dump.recipe, dump.seed) == (case.run.recipe, case.run.seed) and first <= dump.step <= case.incident.step + 1
    ]
    return (f"The recorder kept the last steps before it: {', '.join(f'`{path}`' for path in near)}.",) if near else ()


def _known_rule(case: Case) -> tuple[str, str]:
    """The remedy of a finding about the site, else the compute dtype for it."""
    recipe, incident = case.contents.recipes.get(case.run.recipe), case.incident
    layer = incident.site.partition(" (")[0]
    for record in case.history:
        if not isinstance(record, FindingRecord) or not record.rule or abs(record.step - incident.step) > _NEAR:
            continue
        if layer in ("", record.site.partition(" (")[0]) and goes_with(recipe, record.rule):
            return record.rule, f"In the recipe, as the finding `{record.name}` of step {record.step} asks for:"
    # A parameter's name is no layer's, and what is wrong with its values is no format's fault.
    rule = compute_rule(layer) if incident.site.removeprefix(layer).strip(" ()") in ROLES else ""
    if not rule or not goes_with(recipe, rule):
        return "", ""
    return rule, f"In the recipe, before its own rules, to leave `{layer}` in the compute dtype:"
