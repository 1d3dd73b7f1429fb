"""Where bad values come from: each non-finite tensor knows which operations bore what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from ._evidence import Evidence
    from ._range import Range


@dataclass(eq=False)
class Birth:
    """Bad values that were not there before.

    Attributes:
        index: births are numbered as they happen.
        kind: ``"operation"``: made of finite operands, or NaN of infinities; ``"constant"``: the program wrote the
            infinity itself (a mask); ``"source"``: it was there before the watched part began.
        site: module path.
        direction: ``"forward"`` or ``"backward"``.
        evidence: of an operation or a constant: what it did.
        is_meant: of a constant: whether it may be a mask.
        name: of a source: its kind and name; empty where it is not known: a kernel that torch's dispatcher does not see
            has made it.
        values: of a source.
        reader: of a source: the operation that read it first.
        parents: births whose values its operands held.
    """

    index: int
    kind: Literal["operation", "constant", "source"]
    site: str
    direction: str = "forward"
    evidence: Evidence | None = None
    name: str = ""
    values: Range | None = None
    reader: str = ""
    parents: frozenset[Birth] = field(default_factory=frozenset)
    is_meant: bool = True

    @property
    def is_quiet(self) -> bool:
        """Whether it may be meant: an infinity that was written, or a mask of -inf that was given."""
        if self.kind == "constant":
            return self.is_meant
        return self.kind == "source" and self.name != "" and self.values is not None and self.values.only_minus_inf

    def root(self) -> Birth:
        """The first fault that led to this one: itself, unless an operand was bad already by no one's wish."""
        if self.kind != "operation":
            return self
        loud = [birth for birth in self.parents if not birth.is_quiet]
        if loud:
            return min(loud, key=lambda birth: birth.index).root()
        sources = [birth for birth in self.parents if birth.kind == "source"]
        if sources and not (self.evidence is not None and self.evidence.takes_masks):
            return min(sources, key=lambda birth: birth.index)
        return self


class Lineage:
    """Births by the storage of the tensors that hold their values, and other notes on storages."""

    def __init__(self) -> None:
        # A weak reference keeps the identity of a storage from being given to another one.
        self._births: dict[int, tuple[StorageWeakRef, frozenset[Birth]]] = {}
        self._tags: dict[int, tuple[StorageWeakRef, frozenset[str]]] = {}
        self.all: list[Birth] = []

    @property
    def has_tags(self) -> bool:
        """Whether any storage has a note."""
        return bool(self._tags)

    def bear(self, birth: Birth) -> frozenset[Birth]:
        """A birth, noted."""
        self.all.append(birth)
        return frozenset((birth,))

    def of(self, x: Tensor) -> frozenset[Birth]:
        """The births whose values a tensor holds."""
        found = self._births.get(_key(x)) if _has_storage(x) else None
        return frozenset() if found is None else found[1]

    def put(self, x: Tensor, births: frozenset[Birth]) -> None:
        """``x`` holds values of these births; of a sparse one nothing is remembered."""
        if not _has_storage(x):
            return
        reference = StorageWeakRef(x.untyped_storage())
        self._births[reference.cdata] = (reference, births)

    def tags(self, x: Tensor) -> frozenset[str]:
        """The notes on a tensor."""
        found = self._tags.get(_key(x)) if _has_storage(x) else None
        return frozenset() if found is None else found[1]

    def tag(self, x: Tensor, tags: frozenset[str]) -> None:
        """Note something on a tensor; of a sparse one nothing is remembered."""
        if not _has_storage(x):
            return
        reference = StorageWeakRef(x.untyped_storage())
        self._tags[reference.cdata] = (reference, tags)

    def first(self, tensors: Iterable[Tensor]) -> Birth | None:
        """The first fault of those that led to the values of some tensors; ``None`` where nobody knows one."""
        roots = [birth.root() for x in tensors for birth in self.of(x)]
        loud = [birth for birth in roots if birth.kind != "constant" or not birth.is_quiet] or roots
        return min(loud, key=lambda birth: birth.index) if loud else None


def _has_storage(x: Tensor) -> bool:
    return x.layout == torch.strided


def _key(x: Tensor) -> int:
    return x.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]  # as StorageWeakRef asks
