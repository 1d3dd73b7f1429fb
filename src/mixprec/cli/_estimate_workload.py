"""The estimate of a workload, as JSON's values and as tables."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mixprec.records import size

from ._asked_recipes import asked_recipes
from ._print import print_table

if TYPE_CHECKING:
    from mixprec.compare import Estimate
    from mixprec.hardware import Hardware
    from mixprec.planner import RunCost, StepTime

    from ._estimate import ExtraOptions, Options

_TERMS = 12


@dataclass(frozen=True, kw_only=True)
class WorkloadReport:
    """What was found; ``plain``: as JSON's values."""

    title: str
    found: tuple[Estimate, ...]
    costs: tuple[RunCost | None, ...]
    plain: dict[str, Any]

    def print(self) -> None:
        """Tables on standard output, and notes."""
        header = ("", *(f">{one.recipe}" for one in self.found))
        print_table(header, self._memory(), title=f"{self.title}: memory of each device")
        rows = [*self._largest(), *self._time()]
        if rows:
            print_table(header, rows, title="what fits, and how long a step takes")
        for one in self.found:
            if one.time is not None:
                _print_terms(one.recipe, one.time)
        costs = [(one.recipe, cost) for one, cost in zip(self.found, self.costs, strict=True) if cost is not None]
        for recipe, cost in costs:
            _print_cost(recipe, cost)
        for note in dict.fromkeys(note for one in self.found for note in one.notes):
            print(f"note: {note}")

    def _memory(self) -> list[tuple[str, ...]]:
        kinds = list(dict.fromkeys(kind for one in self.found for kind, n in one.memory.by_kind.items() if n))
        rows = [(kind, *(size(one.memory.by_kind.get(kind, 0)) for one in self.found)) for kind in kinds]
        return [*rows, ("peak of a step", *(size(one.memory.peak) for one in self.found))]

    def _largest(self) -> list[tuple[str, ...]]:
        largest = [one.largest for one in self.found]
        if not any(largest):
            return []
        first = largest[0]
        more = [f"{x.samples / first.samples:.2f}" if x and first and first.samples else "–" for x in largest]
        return [
            ("largest batch", *(f"{x.samples:,}" if x else "–" for x in largest)),
            (f"times that of {self.found[0].recipe}", *more),
            ("bound by", *(x.binds if x else "–" for x in largest)),
            ("largest model, parameters", *(f"{x.parameters:,}" if x else "–" for x in largest)),
        ]

    def _time(self) -> list[tuple[str, ...]]:
        if self.found[0].time is None:
            return []
        bounds = ("compute", "bandwidth", "cast", "launch")
        rows = [("step", *(_seconds(one.seconds) for one in self.found))]
        for bound in bounds:
            spent = [one.time.by_bound().get(bound, 0.0) if one.time else 0.0 for one in self.found]
            rows += [(f"  bound by {bound}", *map(_seconds, spent))] if any(spent) else []
        if any(one.summing for one in self.found):
            rows.append(("  summing gradients", *(_seconds(one.summing) for one in self.found)))
        return rows


def estimate_workload(job: str, options: Options, extras: ExtraOptions, hardware: Hardware | None) -> WorkloadReport:
    """Estimate a workload under every recipe that was asked for."""
    from mixprec.compare import estimate, load_workload
    from mixprec.planner import Extras, estimate_cost

    source = load_workload(job, data=options.data)
    recipes = asked_recipes(options.recipe, None)
    found = estimate(source, recipes, hardware, count=options.count, batch=options.batch, seed=options.seed)
    costs = tuple(
        None
        if hardware is None or one.seconds is None or (steps := _steps(options, one)) is None
        else estimate_cost(one.seconds, hardware, steps=steps, count=options.count, extras=Extras(**asdict(extras)))
        for one in found
    )
    on = "" if hardware is None else f" on {options.count} x {hardware.title}"
    plain = {
        "job": source.name,
        "hardware": None if hardware is None else hardware.name,
        "validated": hardware is not None and hardware.is_validated,
        "count": options.count,
        "recipes": [_plain(one, cost) for one, cost in zip(found, costs, strict=True)],
    }
    return WorkloadReport(title=f"{source.name}{on}", found=found, costs=costs, plain=plain)


def _steps(options: Options, one: Estimate) -> int | None:
    """Steps of the run that is to be priced; ``None``: none is."""
    if options.steps is not None:
        return options.steps
    if options.tokens is not None and one.tokens:
        return math.ceil(options.tokens / (one.tokens * options.count))
    if options.epochs is not None and options.samples is not None and one.memory.samples:
        return math.ceil(options.epochs * options.samples / (one.memory.samples * options.count))
    return None


def _plain(one: Estimate, cost: RunCost | None) -> dict[str, Any]:
    memory, time = one.memory, one.time
    return {
        "recipe": one.recipe,
        "parameters": memory.parameters,
        "samples": memory.samples,
        "tokens": one.tokens,
        "memory": memory.by_kind,
        "peak": memory.peak,
        "saved": dict(memory.saved),
        "largest": None if one.largest is None else asdict(one.largest),
        "seconds": one.seconds,
        "summing": one.summing,
        "bounds": {} if time is None else dict(time.by_bound()),
        "terms": [] if time is None else [asdict(term) for term in time.terms],
        "cost": None if cost is None else {**asdict(cost), "hours": cost.hours, "money": cost.money},
        "notes": list(one.notes),
    }


def _print_terms(recipe: str, time: StepTime) -> None:
    ordered = sorted(time.terms, key=lambda term: -term.seconds)
    shown, rest = ordered[:_TERMS], ordered[_TERMS:]
    rows = [(t.site, t.operation, t.format, _seconds(t.seconds), t.bound) for t in shown]
    if rest:
        rows.append((f"{len(rest)} others", "", "", _seconds(sum(t.seconds for t in rest)), ""))
    print_table(("site", "operation", "format", ">time", "bound by"), rows, title=f"a step under {recipe}")


def _print_cost(recipe: str, cost: RunCost) -> None:
    def money(value: float | None) -> str:
        return "–" if value is None else f"{value:,.2f}"

    rows = [(line.what, f"{line.hours:.3g}", money(line.money)) for line in cost.lines]
    rows.append(("all", f"{cost.hours:.3g}", money(cost.money)))
    print_table(("", ">hours", ">money"), rows, title=f"{cost.steps:,} steps under {recipe} on {cost.count} devices")


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"
