"""What is remembered of one product of the measured pass, and what its operands are shared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...nn import ConvolutionGeometry, SeenProduct

#: Of which memory a tensor is, and which part of it: equal for equal values. The reference keeps the address taken.
Key = tuple[int, int, tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A product, less its operands: what is multiplied how.

    Attributes:
        site: of it.
        kind: of it, as a rule's ``type`` would ask.
        operator: ``"linear"``, ``"matmul"`` or ``"convolution"``.
        has_weight: whether the second operand is one.
        geometry: of a convolution.
    """

    site: str
    kind: str
    operator: str
    has_weight: bool
    geometry: ConvolutionGeometry | None

    @classmethod
    def of(cls, seen: SeenProduct) -> Operation:
        """The operation that was seen."""
        last = seen.site.rpartition(".")[2]
        function = last if last in ("qk", "pv", "matmul") and not seen.kind else ""
        kind = seen.kind or function or _KINDS.get(seen.operator) or f"Conv{seen.weight.dim() - 2}d"
        return cls(
            site=seen.site, kind=kind, operator=seen.operator, has_weight=seen.has_weight, geometry=seen.geometry
        )


_KINDS = {"linear": "Linear", "matmul": "grouped_mm"}


@dataclass
class Keys:
    """Memory that was seen as an operand; an address is not taken again while its weak reference lives.

    So long as sites are grouped by keys, these live: of memory that came after they would say that it was shared.
    """

    alive: list[StorageWeakRef] = field(default_factory=lambda: [])

    def key(self, x: Tensor) -> Key:
        """Equal for two operands of equal memory that nobody has written to in between."""
        storage = StorageWeakRef(x.untyped_storage())
        self.alive.append(storage)
        return int(storage.cdata), int(x.storage_offset()), tuple(x.shape), tuple(x.stride()), x._version
