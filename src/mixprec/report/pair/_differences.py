"""What two runs were told differently."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from mixprec.records import NOTHING, ComparisonRecord, Table

_GROUPS = ("data", "machine", "versions")


def differences(
    first: ComparisonRecord, second: ComparisonRecord, names: tuple[str, str]
) -> tuple[Table, tuple[str, ...]]:
    """The settings that differ as a table, and the names of those that are alike."""
    told = _flat(first), _flat(second)
    keys = list(dict.fromkeys((*told[0], *told[1])))
    differ = [key for key in keys if told[0].get(key) != told[1].get(key)]
    rows = tuple((key, *(one.get(key, NOTHING) for one in told)) for key in differ)
    return Table(headers=("setting", *names), rows=rows), tuple(key for key in keys if key not in differ)


def _flat(header: ComparisonRecord) -> dict[str, str]:
    told = {
        "workload": header.workload or NOTHING,
        "baseline": header.baseline,
        "recipes": ", ".join(header.recipes),
        "seeds": ", ".join(map(str, header.seeds)),
        "steps": str(header.steps),
    }
    for group in _GROUPS:
        facts: Mapping[str, Any] = getattr(header, group)
        told |= {f"{group}: {name}": str(value) for name, value in facts.items()}
    return told


def recipe_changes(first: Mapping[str, str], second: Mapping[str, str], names: tuple[str, str]) -> dict[str, str]:
    r"""Recipes that both runs have under one name with different contents, as a unified diff.

    Example:
        >>> print(recipe_changes({"a": "x = 1\ny = 2"}, {"a": "x = 1\ny = 3", "b": ""}, ("old", "new"))["a"])
        --- old
        +++ new
        @@ -1,2 +1,2 @@
         x = 1
        -y = 2
        +y = 3
    """
    return {
        name: "\n".join(difflib.unified_diff(first[name].splitlines(), second[name].splitlines(), *names, lineterm=""))
        for name in first
        if name in second and first[name] != second[name]
    }
