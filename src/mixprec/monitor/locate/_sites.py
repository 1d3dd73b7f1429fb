"""Which module an operation belongs to, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ...nn import ROOT, Conversion, ModuleStack, NodeOrigins, is_in_backward
from ._fault import LOSS

#: The backward pass of a change of dtype, which belongs to whose output it was.
_CAST_NODE = "ToCopyBackward0"


@dataclass(frozen=True)
class Place:
    """Where an operation runs.

    Attributes:
        site: module path.
        module: that runs, or ran forward.
        direction: ``"forward"`` (a recomputation too) or ``"backward"``.
        node: name of the autograd node, in the backward pass.
    """

    site: str
    module: nn.Module | None
    direction: str
    node: str = ""


def named_root(model: nn.Module, conversion: Conversion | None) -> nn.Module:
    """The module from which sites are named: inside of DDP's wrapper, unless it was the wrapper that was converted."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    return inner if conversion is None or conversion.model is inner else model


class Sites:
    """The running module in the forward pass; in the backward pass the one whose forward pass made the node.

    Args:
        model: the root.
        is_whole: whether nothing but the model runs, so that what has no module is the model's own.
    """

    def __init__(self, model: nn.Module, *, is_whole: bool) -> None:
        self._stack = ModuleStack(model)
        self._origins = NodeOrigins[Place]()
        self._outside = ROOT if is_whole else LOSS

    def __enter__(self) -> Sites:
        self._stack.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)

    def note(self, args: tuple[Any, ...]) -> None:
        """An operation is about to run."""
        if not is_in_backward() or torch.is_grad_enabled():
            self._origins.note(args, self._here)

    def now(self) -> Place:
        """Where the running operation belongs."""
        if not is_in_backward() or torch.is_grad_enabled():
            return self._here()
        node: Any = torch._C._current_autograd_node()  # pyright: ignore[reportPrivateUsage]  # no public spelling
        origin = self._origins.of_running()
        name = "" if node is None else node.name()
        if name == _CAST_NODE:
            origin = self._of_input(node) or origin
        if origin is None:
            return Place(self._outside, None, "backward", name)
        return Place(origin.site, origin.module, "backward", name)

    def _here(self) -> Place:
        running = self._stack.running
        return Place(self._stack.path if running is not None else self._outside, running, "forward")

    def _of_input(self, node: Any) -> Place | None:
        following = node.next_functions[0][0] if node.next_functions else None
        if following is None or "AccumulateGrad" in following.name():
            return None
        return self._origins.of(following, following._sequence_nr())
