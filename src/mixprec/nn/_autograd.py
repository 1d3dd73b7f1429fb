"""What autograd is doing on this thread."""

import torch


def is_in_backward() -> bool:
    """Whether this thread is inside a backward pass."""
    return torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]  # as torch.utils.checkpoint asks
