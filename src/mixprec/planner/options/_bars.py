"""Why a group may not have a candidate: rules, formats that a device has not, sizes that blocks do not divide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ...formats import BLOCK_FORMATS
from ...specs import ACTIVATION_PRODUCTS, OPERANDS, Cast, Layer
from .._candidate import KEEP, Candidate
from .._inventory import Inventory
from .._scores import GroupScores
from .._targets import LayerTarget

#: Tells why a group may not have a candidate; an empty text where it may.
Bar = Callable[[GroupScores, Candidate], str]

#: The product whose reduction the blocks of an operand lie along; that of wgrad is the batch, which may vary.
_GEMMS = {name: name.partition("_")[0] for name in OPERANDS if not name.startswith("wgrad")}


def bar_by_layers(targets: Sequence[LayerTarget], layers: Mapping[str, Layer], candidates: Sequence[str]) -> Bar:
    """Bar what a layer target does not name, from every group that holds a layer that it meets.

    Args:
        targets: what layers may be given.
        layers: by site.
        candidates: names of all candidates.

    Raises:
        ValueError: a target that meets no layer, or names none of the candidates.
    """
    for target in targets:
        if not any(target.rule.matches(layer) for layer in layers.values()):
            near = ", ".join(list(layers)[:5])
            raise ValueError(f"layer target ({target.said}) meets no layer of this model; its sites are {near}, ...")
        if not set(target.candidates) & set(candidates):
            raise ValueError(
                f"layer target ({target.said}) names no candidate of this plan: they are {', '.join(candidates)}"
            )

    def bar(group: GroupScores, candidate: Candidate) -> str:
        for target in targets:
            if candidate.name in target.candidates:
                continue
            met = next((site for site in group.sites if site in layers and target.rule.matches(layers[site])), None)
            if met is not None:
                return f"layer target ({target.said}) meets {met}"
        return ""

    return bar


def bar_by_format(device: str, multiplies: Callable[[str], bool]) -> Bar:
    """Bar casts to formats that a device does not multiply.

    Args:
        device: what to call it.
        multiplies: whether it does, by the name of a block format (``"mxfp8"``) or an element (``"e4m3"``).
    """

    def bar(group: GroupScores, candidate: Candidate) -> str:
        missing = sorted({name for cast in _casts(candidate) if not multiplies(name := _format(cast))})
        return f"{device} does not multiply {' and '.join(missing)}" if missing else ""

    return bar


def bar_by_shape(inventory: Inventory) -> Bar:
    """Bar blocks that do not divide a layer's features, which no native product takes."""
    reductions: dict[tuple[str, str], int] = {}
    for product in inventory.products:
        reductions[product.site, product.gemm] = product.k

    def bar(group: GroupScores, candidate: Candidate) -> str:
        if candidate.precision is None:
            return ""
        for operand, gemm in _GEMMS.items():
            cast = candidate.precision.operand(operand)
            if cast is None or cast.granularity.kind != "block":
                continue
            for site in group.sites:
                size = reductions.get((site, gemm), 0)
                block = cast.granularity.reduction
                if size % block:
                    return f"{site} has a reduction of {size}, which blocks of {block} do not divide"
        return ""

    return bar


def bar_activations(group: GroupScores, candidate: Candidate) -> str:
    """Bar the products of attention and of activations among themselves, which fused kernels run in one dtype."""
    if candidate.name == KEEP or not set(group.kinds) & set(ACTIVATION_PRODUCTS):
        return ""
    return "a product of activations with one another, which stays in the compute dtype"


def bar_by_score(group: GroupScores, candidate: Candidate) -> str:
    """Bar what nothing is known of, or what overflowed when it was measured."""
    if candidate.name == KEEP:
        return ""
    if group.is_dead:
        return "the gradient of its output was zero in every batch, so nothing is known of it"
    score = group.candidates.get(candidate.name)
    if score is None:
        return "it was not measured"
    return "" if math.isfinite(score.loss) else f"its measured loss change is {score.loss}"


def _casts(candidate: Candidate) -> list[Cast]:
    precision = candidate.precision
    return [] if precision is None else [c for name in OPERANDS if (c := precision.operand(name)) is not None]


def _format(cast: Cast) -> str:
    """What the matrix units must multiply: the format whose blocks make up the cast's, else the element."""
    scales = cast.element, cast.scale, cast.tensor_scale
    for name, block in BLOCK_FORMATS.items():
        same = (block.element, block.scale, block.tensor_scale) == scales
        if same and block.block == (1, cast.granularity.reduction):
            return name
    return cast.element
