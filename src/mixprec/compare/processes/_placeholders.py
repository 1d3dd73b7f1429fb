"""Words of a command, and names of files, with places for what changes from run to run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mixprec.formats import unknown_name

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def places_in(text: str) -> frozenset[str]:
    """Names that stand in braces; doubled braces are text.

    Example:
        >>> sorted(places_in("{run}/log-{seed}.csv {{epoch}}"))
        ['run', 'seed']
    """
    return frozenset(found[2] for found in _PLACE.finditer(text) if found[2])


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values where their names stand in braces; ``{{name}}`` becomes ``{name}``.

    Braces around anything but one word, as in JSON, are text.

    Raises:
        ValueError: a name that has no value.

    Example:
        >>> fill('--seed={seed} --out={{epoch}}.pt --json={"a": 1}', {"seed": "3"})
        '--seed=3 --out={epoch}.pt --json={"a": 1}'
    """

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "{" + found[1] + "}"
        if found[2] not in values:
            raise unknown_name(f"place in '{text}':", found[2], values)
        return values[found[2]]

    return _PLACE.sub(value, text)
