"""Casts of a conversion that leave their format's range: overflow to inf, or saturation under a scale too old."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import kernels
from ...formats import get_format
from ...nn import SeenOperand
from ...specs import Cast, parse_cast
from ...tensors import read_statistics
from ._causes import Made
from ._values import facts_of, is_finite
from ._watch_mode import Candidate, FiniteWatch

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Share of a tensor's elements beyond a delayed or missing scale's range that is worth telling.
_SATURATED = 0.01


class CastWatch:
    """Sees every operand of a replay before its cast; an ``OperandWatch``.

    Args:
        watch: is told of overflows.

    Attributes:
        saturated: casts that saturated many elements, worst first.
    """

    def __init__(self, watch: FiniteWatch) -> None:
        self._watch = watch
        self._saturated: list[tuple[float, Candidate]] = []

    @property
    def saturated(self) -> list[tuple[float, Candidate]]:
        """The share of each, and what it is."""
        return sorted(self._saturated, key=lambda item: -item[0])

    def operand(self, seen: SeenOperand) -> None:
        """An operand before its cast."""
        if not is_finite(seen.x):
            return
        if seen.cast in _DTYPES:
            self._rounded(seen, seen.x.to(_DTYPES[seen.cast]))
            return
        cast = parse_cast(seen.cast)
        if cast.granularity.kind == "none" and cast.overflow == "propagate":
            self._rounded(seen, kernels.round(seen.x, _nearest(cast)))
        elif cast.granularity.kind == "none" or cast.delayed is not None:
            self._count(seen)

    def _rounded(self, seen: SeenOperand, rounded: Tensor) -> None:
        if not is_finite(rounded):
            self._watch.note_cast(_candidate(seen, rounded))

    def _count(self, seen: SeenOperand) -> None:
        raw = kernels.statistics(
            seen.x,
            [seen.cast],
            axis=seen.axis,
            random=seen.random,
            stream=seen.stream,
            sign_stream=seen.sign_stream,
            amax=seen.amax,
        )
        ((counted,),) = read_statistics([raw])
        if counted.saturated > _SATURATED:
            self._saturated.append((counted.saturated, _candidate(seen, seen.x)))


def limit_of_cast(text: str) -> float:
    """The largest finite number of the format of a cast's elements, or of a dtype."""
    return torch.finfo(_DTYPES[text]).max if text in _DTYPES else get_format(parse_cast(text).element).max_value


def _nearest(cast: Cast) -> str:
    return f"{cast.element} propagate"


def _candidate(seen: SeenOperand, result: Tensor) -> Candidate:
    made = Made(
        operation=seen.name,
        direction="forward" if seen.gemm == "fprop" else "backward",
        origin="",
        result=facts_of(result),
        operands=((seen.role, facts_of(seen.x)),),
        lineage=frozenset(),
        module="",
    )
    return Candidate(site=seen.site, operand=seen.role, made=made)
