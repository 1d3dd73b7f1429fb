"""What autograd is doing on this thread."""

import torch


def is_in_backward() -> bool:
    """Whether this thread is inside a backward pass; under ``torch.compile``, which traces forward code, it is not."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]  # as torch.utils.checkpoint asks
