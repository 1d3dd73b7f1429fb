"""Which layers get which precision: a rule, and what a rule may ask of a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ._layer import LayerPrecision

#: Products of activations with activations, which have no weight: only a rule that names their type is about them.
ACTIVATION_PRODUCTS = ("qk", "pv", "matmul")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What a rule may ask of a layer.

    Attributes:
        path: the module's path, as ``named_modules`` gives it; of a function call, that of the module that calls.
        type: name of the module's class; for a converted or registered module, of the class that it stands for; of a
            function call ``"Linear"``, ``"Conv2d"``, ``"qk"``, ``"pv"``, ``"matmul"``, ``"grouped_mm"``.
        features: the layer's feature counts: (output, input) for a linear layer. Where there are none,
            ``divisible_by`` and ``min_size`` exclude nothing.
        block: the index of the repeated block that holds the layer, or ``None``.
        blocks: how many such blocks the model has.
        is_head: whether it makes the model's output: behind the blocks, tied to an embedding, or named so.
        is_embedding: whether it stands before the blocks.
    """

    path: str
    type: str
    features: tuple[int, ...] = ()
    block: int | None = None
    blocks: int = 0
    is_head: bool = False
    is_embedding: bool = False


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which layers get which precision. In a recipe the first rule that matches a layer wins.

    All that a rule asks must hold; ``first_blocks`` and ``last_blocks`` together ask for either end.

    Attributes:
        match: glob on the module path, case-sensitive (``*`` crosses dots), e.g. ``"blocks.*.mlp.*"``.
        type: name of the module's class, e.g. ``"Linear"``; ``None``: any layer with a weight. The products of
            attention and of activations among themselves are met by their own types alone: ``"qk"``, ``"pv"``,
            ``"matmul"``.
        divisible_by: every one of the layer's feature counts must be a multiple of it; ``None``: any.
        min_size: every one of the layer's feature counts must be at least this; ``None``: any.
        first_blocks: only the first repeated blocks: a number, or a share below 1 (rounded down).
        last_blocks: only the last ones.
        head: only what makes the model's output.
        embeddings: only what stands before the repeated blocks.
        precision: the layer's casts; ``None`` leaves the layer in the compute dtype.
        required: whether it is worth an event when no layer matches, or a matched one cannot be converted.

    Raises:
        ValueError: an empty glob or class name, or a size or share out of its range.

    Example:
        >>> rule = Rule(match="blocks.*", type="Linear", divisible_by=32)
        >>> rule.matches(Layer(path="blocks.3.mlp.fc2", type="Linear", features=(64, 256)))
        True
    """

    match: str = "*"
    type: str | None = None
    divisible_by: int | None = None
    min_size: int | None = None
    first_blocks: float | None = None
    last_blocks: float | None = None
    head: bool = False
    embeddings: bool = False
    precision: LayerPrecision | None = None
    required: bool = True

    def __post_init__(self) -> None:
        if not self.match or self.type == "":
            raise ValueError(f"rule has match='{self.match}', type='{self.type}': expected a glob and a class name")
        for name, size in (("divisible_by", self.divisible_by), ("min_size", self.min_size)):
            if size is not None and (type(size) is not int or size < 1):
                raise ValueError(f"rule for '{self.match}' has {name}={size}, expected an integer, 1 or more")
        for name, count in (("first_blocks", self.first_blocks), ("last_blocks", self.last_blocks)):
            if count is not None and not _is_number_or_share(count):
                raise ValueError(
                    f"rule for '{self.match}' has {name}={count}, expected a whole number of blocks from 1 on, or a "
                    "share between 0 and 1"
                )

    @property
    def is_structural(self) -> bool:
        """Whether it asks where a layer stands in the model."""
        return self.first_blocks is not None or self.last_blocks is not None or self.head or self.embeddings

    def matches(self, layer: Layer) -> bool:
        """Tell whether the rule is for a layer."""
        return (
            fnmatchcase(layer.path, self.match)
            and (layer.type not in ACTIVATION_PRODUCTS if self.type is None else self.type == layer.type)
            and (self.divisible_by is None or all(size % self.divisible_by == 0 for size in layer.features))
            and (self.min_size is None or all(size >= self.min_size for size in layer.features))
            and (not self.head or layer.is_head)
            and (not self.embeddings or layer.is_embedding)
            and self._asks_for_block(layer)
        )

    def _asks_for_block(self, layer: Layer) -> bool:
        if self.first_blocks is None and self.last_blocks is None:
            return True
        if layer.block is None:
            return False
        first, last = _count(self.first_blocks, layer.blocks), _count(self.last_blocks, layer.blocks)
        return layer.block < first or layer.block >= layer.blocks - last


def _is_number_or_share(count: float) -> bool:
    return type(count) in (int, float) and count > 0 and (count < 1 or (math.isfinite(count) and count == int(count)))


def _count(asked: float | None, blocks: int) -> int:
    """A number of blocks, or a share of them rounded down."""
    if asked is None:
        return 0
    return math.floor(asked * blocks + 1e-9) if asked < 1 else int(asked)
