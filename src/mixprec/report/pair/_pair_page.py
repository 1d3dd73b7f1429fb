"""What the page of two runs shows; the template only places it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mixprec.records import Table, group_by_recipe

from .._folder import RunFolder
from .._interval_chart import IntervalChart
from .._page import Page, make_page
from ._differences import differences, recipe_changes
from ._joined_charts import joined_chart, joined_charts


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
        intervals: the gaps of each metric that both runs have; of the loss, where one has it.
        charts: by name.
    """

    names: tuple[str, str]
    pages: tuple[Page, Page]
    order: Mapping[str, int]
    settings: Table
    alike: tuple[str, ...]
    changed: Mapping[str, str]
    intervals: tuple[IntervalChart, ...]
    charts: Mapping[str, Any]


def make_pair_page(first: RunFolder, second: RunFolder) -> PairPage:
    """Gather a page from two run folders."""
    pages = make_page(first), make_page(second)
    names = (first.name, second.name) if first.name != second.name else (str(first.path), str(second.path))
    order = {recipe: place for place, recipe in enumerate(dict.fromkeys((*pages[0].order, *pages[1].order)))}
    headers = [group_by_recipe(folder.records)[0] for folder in (first, second)]
    settings, alike = differences(headers[0], headers[1], names)
    intervals = tuple(_intervals(pages, names, order))
    return PairPage(
        names=names,
        pages=pages,
        order=order,
        settings=settings,
        alike=alike,
        changed=recipe_changes(first.recipes, second.recipes, names),
        intervals=intervals,
        charts={
            **{one.place: one.chart for one in intervals},
            **joined_charts([page.charts for page in pages], names, order),
        },
    )


def _intervals(pages: tuple[Page, Page], names: tuple[str, str], order: Mapping[str, int]) -> Iterator[IntervalChart]:
    """Gaps of metrics that are on one of the pages, and that both runs have; in the first run's order."""
    shown = dict.fromkeys(one.metric for page in pages for one in page.intervals)
    own = [{one.metric: one for one in page.every_interval} for page in pages]
    metrics = [name for name in shown if name == "loss" or all(name in each for each in own)]
    for rank, name in enumerate(metrics):
        found = [each.get(name) for each in own]
        chart = joined_chart([None if one is None else one.chart for one in found], names, order)
        told = " / ".join(dict.fromkeys(one.told for one in found if one is not None))
        if chart is not None:
            yield IntervalChart(metric=name, rank=rank, told=told, chart=chart)
