"""Faults of the precision: they are in the recipe from some step on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from mixprec.nn import conversion_of
from mixprec.specs import LayerPrecision, Phase, Recipe, rules_at
from mixprec.training import Session

from ._fault import Fault


@final
@dataclass(frozen=True, kw_only=True)
class FourBits(Fault):
    """One scale per tensor and 4 bits for every operand of the site that bears them worst.

    Attributes:
        site: that site.
    """

    name: ClassVar[str] = "fp4-site"
    title: ClassVar[str] = "FP4 at the most sensitive site"
    within: ClassVar[int | None] = None

    site: str

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe with a phase in which the site is narrow."""
        return _narrowed(recipe, self.site, LayerPrecision.uniform("e2m1[tensor]"), self.at)


@final
@dataclass(frozen=True, kw_only=True)
class FrozenScale(Fault):
    """The input of a site in E4M3 under a scale that no longer follows it, a sixty-fourth of what it should be.

    Attributes:
        site: that site.
    """

    name: ClassVar[str] = "frozen-scale"
    title: ClassVar[str] = "a scale per tensor, frozen 64 times too small"
    within: ClassVar[int | None] = None

    site: str
    factor: float = 64.0
    _frozen: dict[str, float] = field(default_factory=dict[str, float], init=False, repr=False, compare=False)

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe with a phase in which the site's input is scaled by its history."""
        return _narrowed(recipe, self.site, LayerPrecision.of(input="e4m3[tensor] delayed"), self.at)

    def before_step(self, session: Session, calls: int) -> None:
        """The history says each time a part of what it said first."""
        del calls
        conversion = conversion_of(session.model)
        for name, history in () if conversion is None else conversion.state.histories.items():
            if name.startswith(f"{self.site} (input)") and history.any():
                amax = self._frozen.setdefault(name, float(history.max()) / self.factor)
                history.fill_(amax)


def _narrowed(recipe: Recipe, site: str, precision: LayerPrecision, at: int) -> Recipe:
    rules = (*rules_at(site, precision), *(replace(rule, required=False) for rule in recipe.rules))
    phase = Phase(from_step=max(at, 1), rules=rules)
    return replace(recipe, phases=(phase,))
