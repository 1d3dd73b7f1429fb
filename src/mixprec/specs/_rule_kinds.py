"""Whether the parts of rules are of the kinds that they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ._kinds import FLAG, TEXT, Kind, check_kinds, one_of
from ._layer import LayerPrecision
from ._rule import Rule

_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "match": TEXT,
        "type": one_of(str, optional=True),
        "head": FLAG,
        "embeddings": FLAG,
        "precision": one_of(LayerPrecision, optional=True),
        "required": FLAG,
    }
)


def check_rules(rules: Iterable[Rule]) -> None:
    """Refuse rules with a part of another kind; their numbers they check themselves.

    Raises:
        TypeError: one has.
    """
    for rule in rules:
        check_kinds("rule", rule, _KINDS)
