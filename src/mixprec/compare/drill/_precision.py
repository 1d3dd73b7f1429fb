"""Faults of the precision: they are in the recipe from some step on."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, final

from mixprec.nn import Conversion, conversion_of
from mixprec.specs import LayerPrecision, Phase, Recipe, Rule, rules_at
from mixprec.training import Session

from ._fault import Clock, Fault, Place


@dataclass(frozen=True, kw_only=True)
class SiteFault(Fault):
    """A site is narrower than it bears.

    Attributes:
        site: that site, a module's path.
        total_steps: of the run; needed where the recipe has a phase that is a share of it.
    """

    clock: ClassVar[Clock] = "applied"
    within: ClassVar[int | None] = None

    site: str
    total_steps: int | None = None

    @classmethod
    def planted(cls, place: Place) -> Self:
        """At the site that bears it worst."""
        return cls(at=max(place.at, 1), seed=place.seed, site=place.site, total_steps=place.total_steps)

    @property
    @abstractmethod
    def precision(self) -> LayerPrecision:
        """What the site is narrowed to."""

    def hold(self, conversion: Conversion) -> None:
        """What is done to the converted model before each step from ``at`` on."""
        del conversion

    def at_once(self, recipe: Recipe) -> Recipe:
        """The recipe with a narrow site from its beginning on, and no phases."""
        return replace(recipe, rules=self._narrowed(recipe.rules), phases=())

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe with a phase in which the site is narrow, as it is in those that follow.

        Raises:
            ValueError: a phase of the recipe waits for a signal, so that nobody knows whether it comes before.
        """
        starts = [(phase.begins(self.total_steps), phase) for phase in recipe.phases]
        before, later, rules = list[Phase](), list[Phase](), recipe.rules
        for start, phase in starts:
            if start is None:
                raise ValueError(
                    f"fault {self.name}: a phase of recipe {recipe.name} begins {phase.when_text}, and it cannot be "
                    "planted before or after that: leave the fault out, or give the phase a step"
                )
            if start <= self.at:
                rules = phase.rules
                before += [replace(phase, from_step=start, last=None)] if start < self.at else []
            else:
                later.append(replace(phase, from_step=start, last=None, rules=self._narrowed(phase.rules)))
        own = Phase(from_step=self.at, rules=self._narrowed(rules))
        return replace(recipe, phases=(*before, own, *later))

    def before_step(self, session: Session, calls: int) -> None:
        """From its own time on, the site is held."""
        conversion = conversion_of(session.model)
        if calls >= self.at and conversion is not None:
            self.hold(conversion)

    def _narrowed(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return (*rules_at(self.site, self.precision), *(replace(rule, required=False) for rule in rules))


@final
@dataclass(frozen=True, kw_only=True)
class FourBits(SiteFault):
    """One scale per tensor and 4 bits for every operand of a site."""

    name: ClassVar[str] = "fp4-site"
    title: ClassVar[str] = "FP4 at the most sensitive site"

    @property
    def precision(self) -> LayerPrecision:
        """E2M1 under one scale, all over."""
        return LayerPrecision.uniform("e2m1[tensor]")


@final
@dataclass(frozen=True, kw_only=True)
class FrozenScale(SiteFault):
    """The input of a site in E4M3 under a scale that no longer follows it, a sixty-fourth of what it should be.

    Attributes:
        factor: by which it is too small.
    """

    name: ClassVar[str] = "frozen-scale"
    title: ClassVar[str] = "a scale per tensor, frozen 64 times too small"

    factor: float = 64.0
    # What the scale was frozen at, by operand: it stays so when a run goes back.
    _frozen: dict[str, float] = field(default_factory=dict[str, float], init=False, repr=False, compare=False)

    @property
    def precision(self) -> LayerPrecision:
        """E4M3 scaled by a history, the input alone."""
        return LayerPrecision.of(input="e4m3[tensor] delayed")

    def hold(self, conversion: Conversion) -> None:
        """The history says each time a part of what it said first."""
        for name, history in conversion.state.histories.items():
            if name.startswith(f"{self.site} (input)") and history.any():
                amax = self._frozen.setdefault(name, float(history.max()) / self.factor)
                history.fill_(amax)
