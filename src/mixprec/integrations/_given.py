"""A recipe or a plan, as an emitter is given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..planner.plan import Plan
from ..specs import Recipe


@dataclass(frozen=True, kw_only=True)
class Given:
    """A recipe, and the reason of each of its sites where a plan tells them."""

    recipe: Recipe
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, given: Recipe | Plan) -> Given:
        """Read a recipe or a plan."""
        if isinstance(given, Recipe):
            return cls(recipe=given)
        reasons = {
            site: f"{group.candidate}: {group.reason}" if group.reason else group.candidate
            for group in given.evidence.groups
            for site in group.sites
        }
        return cls(recipe=given.recipe, reasons=reasons)
