"""What the page of two runs shows; the template only places it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mixprec.records import Table, group_by_recipe

from .._folder import RunFolder
from .._page import Page, make_page
from ._differences import differences, recipe_changes
from ._joined_charts import joined_charts


@dataclass(frozen=True, kw_only=True)
class PairPage:
    """Everything that the template places.

    Attributes:
        names: of the two runs.
        pages: of each, as it would stand alone.
        order: the place of each recipe's colour, in both runs the same.
        settings: those that differ.
        alike: names of those that do not.
        changed: recipes of one name with different contents, as a unified diff.
        charts: by name.
    """

    names: tuple[str, str]
    pages: tuple[Page, Page]
    order: Mapping[str, int]
    settings: Table
    alike: tuple[str, ...]
    changed: Mapping[str, str]
    charts: Mapping[str, Any]


def make_pair_page(first: RunFolder, second: RunFolder) -> PairPage:
    """Gather a page from two run folders."""
    pages = make_page(first), make_page(second)
    names = (first.name, second.name) if first.name != second.name else (str(first.path), str(second.path))
    order = {recipe: place for place, recipe in enumerate(dict.fromkeys((*pages[0].order, *pages[1].order)))}
    headers = [group_by_recipe(folder.records)[0] for folder in (first, second)]
    settings, alike = differences(headers[0], headers[1], names)
    return PairPage(
        names=names,
        pages=pages,
        order=order,
        settings=settings,
        alike=alike,
        changed=recipe_changes(first.recipes, second.recipes, names),
        charts=joined_charts([_charts(page) for page in pages], names, order),
    )


def _charts(page: Page) -> dict[str, Any]:
    """A page's charts; of its gaps that of the loss stands beside the other run's."""
    loss = next((one.chart for one in page.intervals if one.metric == "loss"), None)
    return {**page.charts, "intervals": loss}
