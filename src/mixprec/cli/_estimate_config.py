"""The estimate of a Hugging Face config over many devices, as JSON's values and as tables."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from mixprec.records import size

from ._asked_recipes import asked_recipes
from ._print import print_table

if TYPE_CHECKING:
    from mixprec.hardware import Hardware
    from mixprec.planner import ParallelForecast, RunCost

    from ._estimate import ExtraOptions, LayoutOptions, Options


@dataclass(frozen=True, kw_only=True)
class ConfigReport:
    """What was found; ``plain``: as JSON's values."""

    title: str
    forecasts: tuple[ParallelForecast, ...]
    costs: tuple[RunCost | None, ...]
    limit: float | None
    plain: dict[str, Any]

    def print(self) -> None:
        """Tables on standard output, and notes."""
        for forecast, cost in zip(self.forecasts, self.costs, strict=True):
            rows = [(kind, size(n)) for kind, n in forecast.memory.items()]
            fits = "" if self.limit is None else f" of {size(round(self.limit))}"
            print_table(("", ">bytes"), [*rows, ("all", size(forecast.bytes) + fits)], title=self._heading(forecast))
            terms = [(t.name, f"{t.seconds:.3g} s", f"{t.exposed:.3g} s", t.bound) for t in forecast.terms]
            terms.append(("step", "", f"{forecast.seconds:.3g} s", f"{forecast.tokens:,} tokens"))
            print_table(("", ">time", ">exposed", "bound by"), terms, title="time of a step")
            if cost is not None:
                money = "no price was given" if cost.money is None else f"{cost.money:,.2f}"
                print(f"{cost.steps:,} steps on {cost.count:,} devices: {cost.hours:,.1f} hours, {money}")
        for note in dict.fromkeys(note for forecast in self.forecasts for note in forecast.notes):
            print(f"note: {note}")

    def _heading(self, forecast: ParallelForecast) -> str:
        return f"{self.title}, {forecast.parameters:,} parameters under {forecast.recipe}: the fullest device"


def estimate_config(
    path: str, options: Options, extras: ExtraOptions, layout: LayoutOptions, hardware: Hardware | None
) -> ConfigReport:
    """Estimate a config under every recipe that was asked for."""
    from mixprec.planner import Extras, Parallelism, estimate_cost, plan_parallel, shape_of_config

    if hardware is None:
        raise ValueError("a config.json needs --hardware: memory and time are worked out for devices of a kind")
    group = layout.tensor * layout.pipeline
    if options.count % group:
        raise ValueError(
            f"--count {options.count} is no multiple of --tensor {layout.tensor} times --pipeline {layout.pipeline}, "
            f"which is {group}: the data ranks are what is left"
        )
    values = {k: v for k, v in asdict(layout).items() if k != "sequence"}
    spread = Parallelism(data=options.count // group, **cast("Any", values))
    shape = shape_of_config(path)
    forecasts = tuple(
        plan_parallel(shape, spread, recipe, hardware, sequence=layout.sequence, samples=options.batch or 1)
        for recipe in asked_recipes(options.recipe, None)
    )
    costs = tuple(
        None
        if (steps := _steps(options, forecast, layout.sequence)) is None
        else estimate_cost(
            forecast.seconds, hardware, steps=steps, count=options.count, extras=Extras(**asdict(extras))
        )
        for forecast in forecasts
    )
    plain = {
        "job": path,
        "hardware": hardware.name,
        "validated": False,
        "count": options.count,
        "recipes": [
            {
                **asdict(forecast),
                "peak": forecast.bytes,
                "seconds": forecast.seconds,
                "bounds": {term.name: term.exposed for term in forecast.terms},
                "cost": None if cost is None else {**asdict(cost), "hours": cost.hours, "money": cost.money},
            }
            for forecast, cost in zip(forecasts, costs, strict=True)
        ],
    }
    limit = None if hardware.memory is None else hardware.memory.value
    title = f"{shape.name} on {options.count:,} x {hardware.title}"
    return ConfigReport(title=title, forecasts=forecasts, costs=costs, limit=limit, plain=plain)


def _steps(options: Options, forecast: ParallelForecast, sequence: int) -> int | None:
    tokens = options.tokens
    if options.epochs is not None and options.samples is not None:
        tokens = math.ceil(options.epochs * options.samples * sequence)
    return options.steps if tokens is None else math.ceil(tokens / forecast.tokens)
