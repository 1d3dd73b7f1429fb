"""Which site of an inventory gets which precision under a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...specs import ACTIVATION_PRODUCTS, Layer, LayerPrecision, Recipe
from .._inventory import Inventory

_HEAD_NAMES = ("*head", "*head.*", "*classifier", "*classifier.*")
#: Layers that can have no casts and multiply in the compute dtype (`mixprec.nn`).
_WITHOUT_CASTS = ("LSTM", "GRU", "RNN", "Bilinear", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_BLOCK = re.compile(r"^(.*?\.)?(\d+)(\.|$)")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The precision of every site.

    Attributes:
        compute_dtype: of what has no casts.
        precisions: by site; a site that is absent, or ``None``, stays in the compute dtype.
    """

    compute_dtype: str = "fp32"
    precisions: Mapping[str, LayerPrecision | None]


def assignment_of(
    inventory: Inventory, recipe: Recipe | Assignment, layers: Mapping[str, Layer] | None = None
) -> Assignment:
    """What a recipe gives each site of an inventory.

    Args:
        inventory: of the model.
        recipe: or an assignment, which is given back. Of a recipe with phases, what it begins with.
        layers: what rules may ask of each site; by default read off the inventory, where the head is what is called
            head or classifier, or comes last behind numbered blocks.
    """
    if isinstance(recipe, Assignment):
        return recipe
    known = layers_of(inventory) if layers is None else layers
    chosen = {site: recipe.rule_for(layer) for site, layer in known.items() if layer.type not in _WITHOUT_CASTS}
    precisions = {site: None if rule is None else rule.precision for site, rule in chosen.items()}
    return Assignment(compute_dtype=recipe.compute_dtype, precisions=precisions)


def layers_of(inventory: Inventory) -> dict[str, Layer]:
    """Sites of an inventory as rules see them, as well as paths tell."""
    forward = [product for product in inventory.products if product.gemm == "fprop"]
    blocks = list(dict.fromkeys(key for p in forward if (key := _block(p.site)) is not None))
    weighted = [product.site for product in forward if product.kind not in ACTIVATION_PRODUCTS]
    last_inside = max((i for i, site in enumerate(weighted) if _block(site) is not None), default=len(weighted))
    behind = set(weighted[last_inside + 1 :])
    found: dict[str, Layer] = {}
    for product in forward:
        path, is_activation = product.site, product.kind in ACTIVATION_PRODUCTS
        if is_activation:
            path = path.removesuffix(product.kind).removesuffix(".")
        key = _block(path)
        found.setdefault(
            product.site,
            Layer(
                path=path,
                type=product.kind,
                features=() if is_activation else (product.n, product.k),
                block=None if key is None else blocks.index(key) if key in blocks else None,
                blocks=len(blocks),
                is_head=product.site in behind or any(fnmatchcase(path, glob) for glob in _HEAD_NAMES),
            ),
        )
    return found


def _block(path: str) -> tuple[str, str] | None:
    """The container and the number of the outermost numbered module that has more inside."""
    match = _BLOCK.match(path)
    return (match[1] or "", match[2]) if match and match[3] else None
