"""What the products of a converted model say of their operands before they cast them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...formats import get_format
from ...nn import ROOT, SeenOperand
from ...specs import Cast, parse_cast
from ._lineage import Birth
from ._range import Range, is_finite, is_measured, range_of


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """A cast that has made finite values of what its format cannot hold.

    Attributes:
        site: of the product.
        role: of the operand.
        gemm: that it enters.
        cast: in its one-line form.
        values: of the operand.
        limit: largest value that the cast holds under its scale.
        births: of the infinities that were in it; none where it was finite.
    """

    site: str
    role: str
    gemm: str
    cast: str
    values: Range
    limit: float
    births: frozenset[Birth]


class Roles:
    """Remembers the operands of the product that runs, and casts that saturate; an ``OperandWatch``.

    Args:
        origins: gives the births of a bad operand.
    """

    def __init__(self, origins: Callable[[Tensor], frozenset[Birth]]) -> None:
        self._origins = origins
        self._bad: dict[str, frozenset[Birth]] = {}
        self._site, self._seen = "", dict[str, Tensor]()
        self.saturations: list[Saturation] = []

    def operand(self, seen: SeenOperand) -> None:
        """An operand is about to be cast."""
        site = seen.site or ROOT
        if site != self._site:
            self._site, self._seen = site, {}
        self._seen[seen.role] = seen.x
        if is_measured(seen.x):
            with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]  # no mode is to see this
                births = frozenset[Birth]() if is_finite(seen.x) else self._origins(seen.x)
                if births:
                    self._bad[site] = self._bad.get(site, frozenset()) | births
                self._note_saturation(seen, births)

    def births_at(self, site: str) -> frozenset[Birth]:
        """Births of the bad operands that a site was given: its casts may bring them into memory of its own unseen.

        Products of one module with names of their own (``attn.in_proj``) are the module's too.
        """
        inside = [births for name, births in self._bad.items() if name.startswith(f"{site}.") or site == ROOT]
        return self._bad.get(site) or frozenset[Birth]().union(*inside)

    def at(self, site: str) -> Mapping[str, Range]:
        """The operands of the product of a site, if it is the one that runs, by role."""
        if not self._site or self._site != site:
            return {}
        return {role: range_of(x) for role, x in self._seen.items() if is_measured(x)}

    def _note_saturation(self, seen: SeenOperand, births: frozenset[Birth]) -> None:
        cast = _CASTS.get(seen.cast) if seen.cast in _CASTS else parse_cast(seen.cast)
        if cast is None or cast.overflow != "saturate":
            return
        if births and cast.granularity.kind != "none" and seen.amax is None:
            return  # a NaN or infinity makes everything NaN that shares its scale
        limit = get_format(cast.element).max_value
        if seen.amax is not None:
            limit = float(seen.amax)
        elif not births:
            return  # a scale of its own fits every value
        values = range_of(seen.x)
        if births or (limit > 0.0 and values.amax > limit * _beyond(cast)):
            self.saturations.append(
                Saturation(
                    site=seen.site or ROOT,
                    role=seen.role,
                    gemm=seen.gemm,
                    cast=seen.cast,
                    values=values,
                    limit=limit,
                    births=births,
                )
            )


#: What is written where an operand has no cast.
_CASTS: dict[str, Cast | None] = {"fp32": None, "bf16": None, "fp16": None, "fp64": None}


def _beyond(cast: Cast) -> float:
    """Half a step beyond the largest value, as a factor of it."""
    element = get_format(cast.element)
    if element.grid:
        return 1.0 + (element.grid[-1] - element.grid[-2]) / 2 / element.grid[-1]
    return 1.0 + 2.0 ** (element.max_exponent - element.mantissa_bits - 1) / element.max_value
