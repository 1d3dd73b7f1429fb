"""A copy of a training job on tensors without values, so that a step of it costs no memory and no arithmetic."""

from __future__ import annotations

import copy
import itertools
import logging
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

from ...monitor import load_random_states, random_states
from ...nn import conversion_of, native_here

Loss = Callable[[nn.Module, Any], Tensor]
_FALLBACK = (
    "a step of this model cannot run on tensors without values ({}), so one real step on the batch was traced instead"
)


@dataclass(frozen=True)
class Sandbox:
    """A copy of a model and of a batch, to run a step of.

    Attributes:
        model: in training mode, not converted.
        batch: as the loss takes it.
        is_fake: whether tensors have no values.
    """

    model: nn.Module
    batch: Any
    is_fake: bool


def traced(model: nn.Module, batch: Any, work: Callable[[Sandbox], Any]) -> tuple[Any, tuple[str, ...]]:
    """Do ``work`` on a copy without values; where the model asks for values, on one with values.

    Args:
        model: stays as it is.
        batch: likewise.
        work: runs a step of what it is given.

    Returns:
        What ``work`` gave, and notes on how.

    Raises:
        Exception: whatever the step raises on real tensors; on the meta device, where there are none, on fake ones.
    """
    try:
        with _sandbox(model, batch, is_fake=True) as sandbox, _unlogged():
            return work(sandbox), ()
    except Exception as error:
        if any(t.is_meta for t in itertools.chain(model.parameters(), model.buffers())):
            raise
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120].rstrip(": ")
    with _sandbox(model, batch, is_fake=False) as sandbox:
        return work(sandbox), (_FALLBACK.format(reason),)


@contextmanager
def _unlogged() -> Generator[None]:
    """Quiet: what torch logs of an operator without a fake implementation is told by the exception.

    An optimizer that asks where its parameters lie, to see whether others wrote to them, gets one answer each time.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
            yield
    finally:
        logger.disabled = before


@contextmanager
def _sandbox(model: nn.Module, batch: Any, *, is_fake: bool) -> Generator[Sandbox]:
    native_here(torch.device("cpu"))  # measures a product once, which needs values
    states = random_states()
    try:
        with ExitStack() as stack:
            mode = FakeTensorMode(allow_non_fake_inputs=True) if is_fake else None
            if mode is not None:
                stack.enter_context(FakeCopyMode(mode))
            copied_model, copied_batch = copy.deepcopy((model, batch))
            stack.close()
            if mode is not None:
                stack.enter_context(mode)
                copied_model, copied_batch = _placed(copied_model, copied_batch)
            for part in list(_converted(copied_model)):
                part.restore()
            for parameter in copied_model.parameters():
                parameter.grad = None
            yield Sandbox(copied_model.train(), copied_batch, is_fake)
    finally:
        load_random_states(states)


def _placed(model: nn.Module, batch: Any) -> tuple[nn.Module, Any]:
    """On the CPU, what is on the meta device: there nothing can be told of kernels and their memory."""
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for table in (module._parameters, module._buffers):  # pyright: ignore[reportPrivateUsage]
            for name, held in table.items():
                if held is not None and held.is_meta:
                    table[name] = made.setdefault(held, _moved(held))  # pyright: ignore[reportArgumentType]
    return model, tree_map(_moved, batch)


def _moved(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor) or not leaf.is_meta:
        return leaf
    empty = torch.empty_like(leaf, device="cpu", requires_grad=False)
    return nn.Parameter(empty, leaf.requires_grad) if isinstance(leaf, nn.Parameter) else empty


def _converted(model: nn.Module) -> Iterator[Any]:
    return (c for c in map(conversion_of, model.modules()) if c is not None)


def samples_of(batch: Any) -> int | None:
    """The first dimension that all tensors of a batch share; ``None`` where they do not."""
    sizes = {t.shape[0] for t in _batch_tensors(batch) if t.dim()}
    return sizes.pop() if len(sizes) == 1 else None


def _batch_tensors(batch: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]
