"""Estimated steps on other hardware, as `mixprec report RUN --hardware NAME` leaves them in the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mixprec.records import NOTHING, Table, size, times

from .._figures import seconds

ESTIMATES = "estimates.json"
#: Version of the file.
SCHEMA = 1
#: Sites that are told by name.
_SHOWN_SITES = 12


@dataclass(frozen=True, kw_only=True)
class RecipeEstimate:
    """One recipe's step on one device: seconds (``None``: no figure), peak bytes, and seconds by site."""

    seconds: float | None
    peak: int | None
    sites: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class HardwareEstimate:
    """The steps of a run's recipes on one device.

    Attributes:
        name: of the device.
        title: the same for a reader.
        is_validated: whether predictions for it were compared with measurements on it.
        recipes: by name.
        notes: what was assumed.
    """

    name: str
    title: str
    is_validated: bool
    recipes: Mapping[str, RecipeEstimate]
    notes: tuple[str, ...] = ()

    def ratio(self, recipe: str, baseline: str) -> float | None:
        """A recipe's estimated step over the baseline's."""
        own, reference = self.recipes.get(recipe), self.recipes.get(baseline)
        if own is None or reference is None or own.seconds is None or not reference.seconds:
            return None
        return own.seconds / reference.seconds

    def sentence(self, recipe: str, baseline: str) -> str:
        """What a recipe's sentence says of it; empty where there is no figure.

        Example:
            >>> steps = {name: RecipeEstimate(seconds=s, peak=None, sites={}) for name, s in (("a", 2.0), ("b", 1.0))}
            >>> one = HardwareEstimate(name="b200", title="B200", is_validated=False, recipes=steps)
            >>> one.sentence("b", "a")
            'estimated 0.50× step on B200, not validated'
        """
        ratio = self.ratio(recipe, baseline)
        if ratio is None:
            return ""
        return f"estimated {times(ratio)} step on {self.title}{'' if self.is_validated else ', not validated'}"


def read_estimates(folder: Path) -> tuple[HardwareEstimate, ...]:
    """The estimates in a run folder; empty where there are none.

    Raises:
        ValueError: for a file that holds something else.
    """
    path = folder / ESTIMATES
    if not path.is_file():
        return ()
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["schema"] != SCHEMA:
            raise ValueError(f"schema {told['schema']}, expected {SCHEMA}")
        return tuple(_hardware(one) for one in told["hardware"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} holds no estimates ({type(error).__name__}: {error}): delete it, and `mixprec report "
            f"{folder} --hardware NAME` makes it anew"
        ) from None


def _hardware(told: Mapping[str, Any]) -> HardwareEstimate:
    recipes = cast(Mapping[str, Mapping[str, Any]], told["recipes"])
    return HardwareEstimate(
        name=str(told["name"]),
        title=str(told["title"]),
        is_validated=bool(told["validated"]),
        recipes={
            name: RecipeEstimate(
                seconds=None if one["seconds"] is None else float(one["seconds"]),
                peak=None if one["peak"] is None else int(one["peak"]),
                sites={str(site): float(value) for site, value in one["sites"].items()},
            )
            for name, one in recipes.items()
        },
        notes=tuple(map(str, told["notes"])),
    )


def estimates_table(estimates: tuple[HardwareEstimate, ...], baseline: str) -> Table | None:
    """Each recipe's step and peak memory on each device; ``None`` without estimates."""
    names = list(dict.fromkeys(name for one in estimates for name in one.recipes))
    if not names:
        return None
    rows = tuple((name, *(_cell(one, name, baseline) for one in estimates)) for name in names)
    headers = tuple(one.title + ("" if one.is_validated else " (not validated)") for one in estimates)
    notes = tuple(dict.fromkeys(note for one in estimates for note in one.notes))
    return Table(headers=("recipe", *headers), rows=rows, notes=notes)


def _cell(one: HardwareEstimate, name: str, baseline: str) -> str:
    found = one.recipes.get(name)
    if found is None or found.seconds is None:
        return NOTHING
    ratio = one.ratio(name, baseline)
    told = seconds(found.seconds) + (f" · {times(ratio)}" if ratio is not None else "")
    return told + (f" · {size(found.peak)}" if found.peak is not None else "")


def estimates_chart(
    estimates: tuple[HardwareEstimate, ...], baseline: str, order: Mapping[str, int]
) -> dict[str, Any] | None:
    """Estimated step over the baseline's, a bar for each recipe and device; ``None`` without any."""
    names = [name for name in order if name != baseline and any(one.ratio(name, baseline) for one in estimates)]
    if not names:
        return None
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "uid": f"estimate{order[name]}",
            "name": name,
            "x": [one.ratio(name, baseline) for one in estimates],
            "y": [one.title for one in estimates],
            "meta": {"series": order[name], "kind": "estimate"},
        }
        for name in names
    ]
    words = " ".join(
        f"{name}: {told}." for name in names for one in estimates if (told := one.sentence(name, baseline))
    )
    rows = 18 * len(names) * len(estimates) + 14 * len(estimates)
    return {"traces": traces, "bars": True, "grouped": True, "height": 90 + rows, "words": words}


def sites_tables(estimates: tuple[HardwareEstimate, ...]) -> dict[str, Table]:
    """Estimated time by site: a table for each device, the slowest sites of its slowest recipe first."""
    return {one.title: table for one in estimates if (table := _sites_table(one)) is not None}


def _sites_table(one: HardwareEstimate) -> Table | None:
    names = [name for name, found in one.recipes.items() if found.sites]
    if not names:
        return None
    most: dict[str, float] = {}
    for name in names:
        for site, value in one.recipes[name].sites.items():
            most[site] = max(value, most.get(site, 0.0))
    ordered = sorted(most, key=lambda site: -most[site])
    shown, rest = ordered[:_SHOWN_SITES], ordered[_SHOWN_SITES:]
    rows = [(site, *(seconds(one.recipes[name].sites.get(site)) for name in names)) for site in shown]
    if rest:
        sums = (sum(one.recipes[name].sites.get(site, 0.0) for site in rest) for name in names)
        rows.append((f"{len(rest)} other sites", *map(seconds, sums)))
    return Table(headers=("site", *names), rows=tuple(rows))
