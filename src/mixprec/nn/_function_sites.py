"""The sites of products that modules call as functions: which rule a call falls under."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn
from torch.nn.utils.spectral_norm import SpectralNorm

from ..specs import ACTIVATION_PRODUCTS, Layer, Recipe, Rule
from ._class_swap import base_class
from ._module_stack import ROOT
from ._operand_cast import OperandCasts
from ._site import STREAMS_PER_SITE, ConversionState, Site
from ._structure import Structure

#: What a call can be for a rule: products with a weight, then those of activations.
FUNCTION_TYPES = ("Linear", "Conv1d", "Conv2d", "Conv3d", "grouped_mm", *ACTIVATION_PRODUCTS)


@dataclass(frozen=True)
class _Choice:
    """A rule that is about a call if the sizes are right, and the site that it gives."""

    rule: Rule
    site: Site

    def fits(self, features: tuple[int, ...]) -> bool:
        divisor, least = self.rule.divisible_by, self.rule.min_size
        return all(n % (divisor or 1) == 0 and n >= (least or 1) for n in features)


class FunctionSites:
    """The site of each function call, by the path of the module that calls and what it calls.

    Everything that a rule can be asked beforehand is; only sizes are left for the call.

    Attributes:
        second_is_weight: whether the right operand of a product of activations counts as its weight.
    """

    second_is_weight = False
    #: Modules whose weight torch's hook divides by its spectral norm, which it finds by products with vectors.
    normed: tuple[nn.Module, ...] = ()

    def __init__(self) -> None:
        self._choices: dict[tuple[str, str], tuple[_Choice, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._choices)

    def find(self, path: str, kind: str, features: tuple[int, ...] = ()) -> Site | None:
        """The site of a call that a rule gives casts, or ``None``.

        Args:
            path: of the module that calls.
            kind: one of ``FUNCTION_TYPES``.
            features: (output, input) of a product with a weight.
        """
        for choice in self._choices.get((path, kind), ()):
            if choice.fits(features):
                return None if choice.site.casts.is_plain else choice.site
        return None

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every site that has casts."""
        return tuple(c.site for choices in self._choices.values() for c in choices if not c.site.casts.is_plain)

    def add(self, path: str, kind: str, choices: Sequence[tuple[Rule, Site]]) -> None:
        """Say what calls of a kind at a path fall under, in order."""
        self._choices[path, kind] = tuple(_Choice(rule, site) for rule, site in choices)


def function_sites(
    model: nn.Module,
    paths: Sequence[str],
    recipe: Recipe,
    structure: Structure,
    state: ConversionState,
    first_stream: int,
    sited: Collection[str] = (),
) -> tuple[FunctionSites, int]:
    """The sites of a model's function calls.

    Args:
        model: the root.
        paths: of the modules whose calls are cast.
        recipe: whose rules apply.
        structure: of the model.
        state: of the conversion.
        first_stream: of the random streams that are free.
        sited: paths of modules that have a site of their own, of that name.

    Returns:
        The sites, and the next free stream.
    """
    sites, stream = FunctionSites(), first_stream
    if all(rule.precision is None for rule in recipe.rules):
        return sites, stream
    sites.normed = tuple(module for module in model.modules() if _is_normed(module))
    modules = dict(model.named_modules())
    for path in paths:
        class_name = base_class(modules[path]).__name__ if path in modules else ""
        for kind in FUNCTION_TYPES:
            rules = _rules_for(recipe.rules, layer_at(path, kind, structure), class_name)
            if all(rule.precision is None for rule in rules):
                continue
            is_own = kind not in ACTIVATION_PRODUCTS and path not in sited
            name = path or ROOT if is_own else f"{path}.{kind}".lstrip(".")
            casts = [OperandCasts.of(rule.precision) for rule in rules]
            made = [Site(name=name, casts=c, stream=stream, state=state) for c in casts]
            sites.add(path, kind, list(zip(rules, made, strict=True)))
            stream += STREAMS_PER_SITE
    return sites, stream


def _is_normed(module: nn.Module) -> bool:
    hooks: Mapping[int, object] = module._forward_pre_hooks  # pyright: ignore[reportPrivateUsage]  # no public spelling
    return any(isinstance(hook, SpectralNorm) for hook in hooks.values())


def layer_at(path: str, kind: str, structure: Structure, features: tuple[int, ...] = ()) -> Layer:
    """What rules may ask of a layer or a call."""
    place = structure.place(path)
    return Layer(
        path=path,
        type=kind,
        features=features,
        block=place.block,
        blocks=len(structure.blocks),
        is_head=place.is_head,
        is_embedding=place.is_embedding,
    )


def _rules_for(rules: Sequence[Rule], layer: Layer, class_name: str) -> list[Rule]:
    """The rules that a call may fall under, up to the first that asks for no size."""
    found: list[Rule] = []
    for rule in rules:
        by_class = layer.type not in ACTIVATION_PRODUCTS and rule.type == class_name
        if rule.matches(replace(layer, type=class_name) if by_class else layer):
            found.append(rule)
            if rule.divisible_by is None and rule.min_size is None:
                break
    return found
