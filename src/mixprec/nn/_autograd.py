"""What autograd and torch's modes are doing on this thread."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


def is_in_backward() -> bool:
    """Whether this thread is inside a backward pass; under ``torch.compile``, which traces forward code, it is not."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]  # as torch.utils.checkpoint asks


def traces_in_backward() -> bool:
    """Whether a compiler's trace has been started by a backward pass: it traces a recomputation."""
    return torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]


# Asked, not traced: what torch.compiler.assume_constant_result sets; calling that would import the whole compiler here.
traces_in_backward._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@contextmanager
def plain_torch(device_type: str) -> Generator[None]:
    """The body of an autograd function: autocast off, and no function mode looking at every attribute and call.

    Measured: a mode costs 2 microseconds a call, which a layer of width 64 makes some fifty of.
    """
    if torch.compiler.is_compiling():
        with torch.autocast(device_type, enabled=False):
            yield
    else:
        with torch.autocast(device_type, enabled=False), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            yield
