"""The weight that a fault of the machine strikes."""

from __future__ import annotations

from torch import nn
from torch.nn import Parameter


def largest_matrix(model: nn.Module) -> Parameter:
    """The first of the largest weights that every step multiplies by.

    A table of embeddings, most of whose rows a step does not touch, is taken only where there is nothing else, and a
    vector only where there is no matrix.

    Example:
        >>> largest_matrix(nn.Sequential(nn.Embedding(100, 4), nn.Linear(4, 8))).shape
        torch.Size([8, 4])
    """
    sparse = {id(p) for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag) for p in m.parameters()}
    used = {
        id(p)
        for m in model.modules()
        if not isinstance(m, nn.Embedding | nn.EmbeddingBag)
        for p in m.parameters(recurse=False)
    }
    return max(model.parameters(), key=lambda p: (p.dim() > 1, id(p) in used or id(p) not in sparse, p.numel()))
