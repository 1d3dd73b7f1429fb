"""Tensors that are there before the watched part begins: parameters, buffers, what the model is called with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from ...nn import ROOT
from ._fault import INPUT, LOSS


@dataclass(frozen=True)
class KnownTensor:
    """One of them.

    Attributes:
        site: module path, or ``"<input>"``, ``"<loss>"``.
        name: a parameter's or an argument's.
        kind: ``"parameter"``, ``"buffer"``, ``"input"``, or ``"output gradient"``.
    """

    site: str
    name: str
    kind: str


class KnownTensors:
    """By their storages."""

    def __init__(self, model: nn.Module) -> None:
        self._known: dict[int, tuple[StorageWeakRef, KnownTensor]] = {}
        self.add_buffers(model)
        for name, tensor in model.named_parameters():
            self._add(tensor, KnownTensor(name.rpartition(".")[0] or ROOT, name, "parameter"))

    def add_buffers(self, model: nn.Module) -> None:
        """Those that the model has now."""
        for name, tensor in model.named_buffers():
            self._add(tensor, KnownTensor(name.rpartition(".")[0] or ROOT, name, "buffer"))

    def add_arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """What the model is called with."""
        for i, value in enumerate(args):
            self._add_tree(f"args[{i}]", value)
        for name, value in kwargs.items():
            self._add_tree(name, value)

    def add_gradient(self, gradient: Tensor, index: int) -> None:
        """The gradient of one of its outputs."""
        self._add(gradient, KnownTensor(LOSS, f"output {index}", "output gradient"))

    def of(self, x: Tensor) -> KnownTensor | None:
        """What is known of a tensor."""
        if x.layout != torch.strided:
            return None
        found = self._known.get(x.untyped_storage()._cdata)  # pyright: ignore[reportPrivateUsage]  # as StorageWeakRef asks
        return None if found is None else found[1]

    def _add_tree(self, name: str, value: object) -> None:
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, Tensor):
                self._add(leaf, KnownTensor(INPUT, name, "input"))

    def _add(self, x: Tensor, known: KnownTensor) -> None:
        if x.device.type != "meta" and x.layout == torch.strided:
            reference = StorageWeakRef(x.untyped_storage())
            self._known[reference.cdata] = (reference, known)
