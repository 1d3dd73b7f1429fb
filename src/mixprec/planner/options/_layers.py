"""The layers of a model as rules see them: what a step multiplied, and registered modules that it did not reach."""

from __future__ import annotations

from torch import nn

from ...nn import ROOT, is_layer_type, layer_at, structure_of
from ...specs import ACTIVATION_PRODUCTS, Layer
from .._inventory import Inventory


def layers_of(model: nn.Module, inventory: Inventory) -> dict[str, Layer]:
    """Give what rules may ask of each site.

    Args:
        model: not converted.
        inventory: of its training step.

    Returns:
        By site: those that multiplied, then modules that could have.

    Example:
        >>> import torch
        >>> from mixprec.planner import take_inventory
        >>> model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))
        >>> found = take_inventory(model, lambda model, x: model(x).sum(), torch.ones(1, 8))
        >>> layers_of(model, found)["0"].features
        (4, 8)
    """
    structure = structure_of(model)
    found: dict[str, Layer] = {}
    for product in inventory.products:
        if product.gemm == "fprop" and product.site not in found:
            path, kind = product.site, product.kind
            if kind in ACTIVATION_PRODUCTS:
                path = path.removesuffix(kind).removesuffix(".")
            features = () if kind in ACTIVATION_PRODUCTS else (product.n, product.k)
            found[product.site] = layer_at("" if path == ROOT else path, kind, structure, features)
    for path, module in model.named_modules():
        if is_layer_type(type(module)) and path not in found:
            found[path] = layer_at(path, type(module).__name__, structure)
    return found
