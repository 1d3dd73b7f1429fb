"""Rules about one site alone."""

from __future__ import annotations

import glob

from ._layer import LayerPrecision
from ._rule import ACTIVATION_PRODUCTS, Rule


def places_of(site: str) -> list[tuple[str, str | None]]:
    """The module paths and types that a site may stand for: ``a.qk`` is a layer of that name, or attention in ``a``.

    Example:
        >>> places_of("blocks.0.fc"), places_of("<loss>")
        ([('blocks.0.fc', None)], [])
    """
    path, _, last = site.rpartition(".")
    if last in ACTIVATION_PRODUCTS:
        return [(site, None), *([(path, last)] if path else [])]
    return [(site, None)] if site and not site.startswith(("(", "<")) else []


def rules_at(site: str, precision: LayerPrecision | None) -> list[Rule]:
    """Rules that give one site a precision, to be put before a recipe's own; none for a site that no rule can name.

    Example:
        >>> [(rule.match, rule.type) for rule in rules_at("blocks.0.attn.qk", None)]
        [('blocks.0.attn.qk', None), ('blocks.0.attn', 'qk')]
    """
    places = places_of(site)
    return [
        Rule(match=glob.escape(path), type=kind, precision=precision, required=len(places) == 1)
        for path, kind in places
    ]
