"""Which of a layer's three products a product of the backward pass is: told by the operands that it reads again."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ._operator_products import OperatorProduct
from ._storage_ids import storage_of

#: A view of a storage, whichever way round it lies.
_View = tuple[int, int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class ForwardProduct:
    """A product of the forward pass, as its backward pass is recognised by.

    Attributes:
        site: where it ran.
        kind: what a rule's ``type`` asks for.
        left: its left operand.
        right: its right operand.
        sizes: of it: m, n, k.
    """

    site: str
    kind: str
    left: _View
    right: _View
    sizes: tuple[int, int, int]

    @classmethod
    def of(cls, product: OperatorProduct, site: str, kind: str) -> ForwardProduct:
        """Remember a product."""
        left, right = _view(product.left), _view(product.right)
        return cls(site, kind, left, right, (product.m, product.n, product.k))

    def role_of(self, product: OperatorProduct) -> str | None:
        """``"dgrad"`` or ``"wgrad"``: the gradient of the left operand, which reads the right one, or the other way.

        ``None``: the product belongs to another one of the same node.
        """
        read = {_view(product.left), _view(product.right)}
        if self.right in read and self.left not in read:
            return "dgrad"
        if self.left in read and self.right not in read:
            return "wgrad"
        m, n, k = self.sizes
        has = product.k, {product.m, product.n}
        return "dgrad" if has == (n, {m, k}) else "wgrad" if has == (m, {k, n}) else None


def backward_role(found: list[ForwardProduct], product: OperatorProduct) -> tuple[ForwardProduct, str] | None:
    """The forward product that a product of the backward pass belongs to, and what it is of it."""
    told = ((forward, forward.role_of(product)) for forward in found)
    return next(((forward, role) for forward, role in told if role is not None), None)


def _view(t: Tensor) -> _View:
    sizes = sorted((int(size), int(stride)) for size, stride in zip(t.shape, t.stride(), strict=True))
    return storage_of(t), int(t.storage_offset()), tuple(sizes)
