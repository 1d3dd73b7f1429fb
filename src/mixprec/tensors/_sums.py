"""Sums whose order is fixed, so that every device and thread count gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 1024


def tree_sum(values: Tensor) -> Tensor:
    """Sum of all elements in fp64, 0-d.

    Chunks of 1024 elements (the last padded with zeros) are halved by adding the second half to the first until
    one number is left of each; the numbers of the chunks are summed in the same way.

    Example:
        >>> tree_sum(torch.ones(3000)).item()
        3000.0
    """
    sums = values.reshape(-1).double()
    while True:
        sums = _chunk_sums(sums)
        if sums.numel() <= 1:
            return sums[0] if sums.numel() else values.new_zeros((), dtype=torch.float64)


class RunningSum:
    """`tree_sum` of elements that come in pieces: the same bits, however they are cut.

    Example:
        >>> x = torch.linspace(0, 1, 5000)
        >>> total = RunningSum()
        >>> for piece in x.split(700):
        ...     total.add(piece)
        >>> total.value() == tree_sum(x).item()
        True
    """

    def __init__(self) -> None:
        self._sums: list[Tensor] = []
        self._rest: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Go on with these elements, in C order."""
        flat = values.reshape(-1).double()
        if self._rest is not None:
            flat = torch.cat((self._rest, flat))
        whole = flat.numel() - flat.numel() % _CHUNK
        if whole:
            self._sums.append(_chunk_sums(flat[:whole]))
        # A copy, for a view would keep the whole piece alive.
        self._rest = flat[whole:].clone() if whole < flat.numel() else None

    def value(self) -> float:
        """The sum of what was added so far."""
        last = [] if self._rest is None else [_chunk_sums(self._rest)]
        sums = [*self._sums, *last]
        return tree_sum(torch.cat(sums)).item() if sums else 0.0


def _chunk_sums(sums: Tensor) -> Tensor:
    """One number for every 1024."""
    chunks = torch.nn.functional.pad(sums, (0, -sums.numel() % _CHUNK)).reshape(-1, _CHUNK)
    while chunks.shape[1] > 1:
        half = chunks.shape[1] // 2
        chunks = chunks[:, :half] + chunks[:, half:]
    return chunks[:, 0]
