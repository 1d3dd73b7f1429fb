"""A batch of another size, made of the samples that there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ._sandbox import samples_of


def resized(batch: Any, samples: int) -> Any:
    """The batch with ``samples`` samples: its own, again and again.

    Args:
        batch: nested containers of tensors, which all have the samples along the first dimension; numbers stay.
        samples: at least 1.

    Raises:
        ValueError: tensors that share no first dimension.

    Example:
        >>> resized({"x": torch.arange(3)}, 5)["x"].tolist()
        [0, 1, 2, 0, 1]
    """
    had = samples_of(batch)
    if had is None:
        shapes = [list(leaf.shape) for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]
        raise ValueError(
            f"the batch has tensors of shapes {', '.join(map(str, shapes))}, expected one first dimension for all, "
            "that of the samples: its size cannot be changed otherwise; return such batches, or leave the size as it is"
        )
    index = torch.arange(samples) % had

    def resize(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim():
            return leaf
        return leaf.new_empty((samples, *leaf.shape[1:])) if leaf.is_meta else leaf[index.to(leaf.device)]

    return tree_map(resize, batch)
