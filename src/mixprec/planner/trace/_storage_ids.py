"""Which storage a tensor lies in, of tensors without values too, which have no addresses."""

from __future__ import annotations

from torch import Tensor


def storage_of(t: Tensor) -> int:
    """The identity of a tensor's storage, good while it lives."""
    return t.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]  # has no public spelling
