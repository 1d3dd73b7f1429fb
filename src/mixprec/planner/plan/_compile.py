"""The rules of a choice: few, and each site gets what was chosen for it."""

from __future__ import annotations

import glob
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ...specs import ACTIVATION_PRODUCTS, Layer, LayerPrecision, Rule

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")


def compile_rules(layers: Mapping[str, Layer], chosen: Mapping[str, LayerPrecision | None]) -> tuple[Rule, ...]:
    """Say a choice in rules: exact paths first, then what the same place has in every block, then what most have.

    Args:
        layers: all that rules can be about, by site.
        chosen: the casts of a site; ``None``, or a site that is missing: it stays in the compute dtype.

    Returns:
        Rules of which every one decides a layer, by which each layer gets exactly what was chosen.

    Raises:
        ValueError: a site that is no layer, or two of one path and type with different casts.

    Example:
        >>> low = LayerPrecision.uniform("mxfp8")
        >>> layers = {f"blocks.{i}.fc": Layer(path=f"blocks.{i}.fc", type="Linear") for i in range(4)}
        >>> rules = compile_rules(layers, {site: None if site == "blocks.0.fc" else low for site in layers})
        >>> [(rule.match, rule.precision is None) for rule in rules]
        [('blocks.0.fc', True), ('*', False)]
    """
    unknown = [site for site in chosen if site not in layers]
    if unknown:
        raise ValueError(f"{unknown[0]} was chosen for and is no layer of the model: its sites are {_few(layers)}")
    wanted = [(layer, chosen.get(site)) for site, layer in layers.items()]
    by_kind: defaultdict[str | None, list[tuple[Layer, LayerPrecision | None]]] = defaultdict(list)
    for layer, precision in wanted:
        by_kind[layer.type if layer.type in ACTIVATION_PRODUCTS else None].append((layer, precision))
    rules = [rule for kind, some in by_kind.items() for rule in _rules_of(kind, some)]
    rules = [*_corrections(rules, wanted), *rules]
    deciding = {id(_first(rules, layer)) for layer, _ in wanted}
    kept = tuple(rule for rule in rules if id(rule) in deciding)
    _check(kept, wanted)
    return kept


def _rules_of(kind: str | None, wanted: Sequence[tuple[Layer, LayerPrecision | None]]) -> list[Rule]:
    """The rules of the layers of one kind: exceptions, places in blocks, the rest."""
    common = None if kind is not None else _most(precision for _, precision in wanted)
    exact: list[Rule] = []
    places: list[Rule] = []
    by_place: defaultdict[str, list[tuple[Layer, LayerPrecision | None]]] = defaultdict(list)
    for layer, precision in wanted:
        by_place[_NUMBER.sub("*", glob.escape(layer.path))].append((layer, precision))
    for place, some in by_place.items():
        usual = _most(precision for _, precision in some)
        if usual != common and sum(precision == usual for _, precision in some) > 1:
            places.append(Rule(match=place, type=kind, precision=usual))
        else:
            usual = common
        exact += [
            Rule(match=glob.escape(layer.path), type=kind, precision=precision)
            for layer, precision in some
            if precision != usual and layer.path  # no glob meets the root alone
        ]
    rest = [] if common is None else [Rule(type=kind, precision=common)]
    return [*exact, *places, *rest]


def _corrections(rules: Sequence[Rule], wanted: Iterable[tuple[Layer, LayerPrecision | None]]) -> list[Rule]:
    """Rules for layers that another's place takes in, since ``*`` crosses dots."""
    return [
        Rule(match=glob.escape(layer.path), type=layer.type, precision=precision)
        for layer, precision in wanted
        if layer.path and _given(rules, layer) != precision
    ]


def _first(rules: Iterable[Rule], layer: Layer) -> Rule | None:
    return next((rule for rule in rules if rule.matches(layer)), None)


def _given(rules: Iterable[Rule], layer: Layer) -> LayerPrecision | None:
    rule = _first(rules, layer)
    return None if rule is None else rule.precision


def _check(rules: Sequence[Rule], wanted: Iterable[tuple[Layer, LayerPrecision | None]]) -> None:
    for layer, precision in wanted:
        if _given(rules, layer) != precision:
            raise ValueError(
                f"no rules give {layer.path or 'the model'} ({layer.type}) what was chosen for it, for a rule "
                "cannot tell it from another of its path and type"
            )


def _most(precisions: Iterable[LayerPrecision | None]) -> LayerPrecision | None:
    """The commonest; of equally common ones the first, and no casts before any."""
    counts = Counter(precisions)
    return max(counts, key=lambda precision: (counts[precision], precision is None))


def _few(layers: Mapping[str, Layer]) -> str:
    return ", ".join(list(layers)[:5]) + (", ..." if len(layers) > 5 else "")
