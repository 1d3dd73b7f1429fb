"""Where a layer stands in a model: its repeated block, before the blocks, or the head behind them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from ._class_swap import base_class

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_HEAD_NAMES = ("*head", "*head.*", "*classifier", "*classifier.*")


@dataclass(frozen=True)
class Place:
    """Where a path stands.

    Attributes:
        block: index of the repeated block that holds it, or ``None``.
        is_head: whether it makes the model's output.
        is_embedding: whether it stands before the blocks.
    """

    block: int | None = None
    is_head: bool = False
    is_embedding: bool = False


class Structure:
    """The repeated blocks of a model, and what stands around them.

    A block is one of several siblings of the same class that hold layers with weights themselves, outermost and in
    registration order; a ``ModuleList`` may hold one alone. Those of an encoder and a decoder count on. The head
    is what stands behind the last block, shares its weight with an embedding, or is named ``head`` or ``classifier``.

    Args:
        model: the root.
        is_layer: whether a module multiplies by a weight of its own.
    """

    def __init__(self, model: nn.Module, is_layer: Callable[[nn.Module], bool]) -> None:
        self._is_layer = is_layer
        self.blocks = tuple(self._blocks("", model))
        self._order = {name: index for index, (name, _) in enumerate(model.named_modules())}
        embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        named = model.named_modules(remove_duplicate=False)
        self._tied = {name for name, m in named if id(getattr(m, "weight", None)) in embeddings}

    def place(self, path: str) -> Place:
        """Where a path stands."""
        for index, block in enumerate(self.blocks):
            if path == block or path.startswith(f"{block}."):
                return Place(block=index)
        is_head = path in self._tied or any(fnmatchcase(path, glob) for glob in _HEAD_NAMES)
        if not self.blocks or path not in self._order:
            return Place(is_head=is_head)
        behind = self._order[path] > self._order[self.blocks[-1]]
        before = self._order[path] < self._order[self.blocks[0]]
        return Place(is_head=is_head or behind, is_embedding=before and not is_head)

    def _blocks(self, path: str, module: nn.Module) -> Iterator[str]:
        siblings: defaultdict[type[nn.Module], list[str]] = defaultdict(list)
        children = {name: child for name, child in module.named_children()}
        for name, child in children.items():
            if self._is_composite(child):
                siblings[base_class(child)].append(name)
        least = 1 if isinstance(module, nn.ModuleList) else 2
        blocks = {name for names in siblings.values() if len(names) >= least for name in names}
        for name, child in children.items():
            full = f"{path}.{name}" if path else name
            if name in blocks:
                yield full
            else:
                yield from self._blocks(full, child)

    def _is_composite(self, module: nn.Module) -> bool:
        inner = [m for m in module.modules() if m is not module]
        return not isinstance(module, _CONTAINERS) and any(self._is_layer(m) for m in inner)
