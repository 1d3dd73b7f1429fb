"""A loss that is not finite, though all gradients are: where it was made."""

from __future__ import annotations

import math
from collections.abc import Iterable

from . import causes
from ._fault import LOSS, Fault
from ._lineage import Birth
from ._range import is_finite, is_measured, ranges_of
from ._replay import Seen

_FINITE = "the model's outputs and all gradients are finite: the loss has made it where no gradient comes by"


def birth_of_outputs(seen: Seen) -> Birth | None:
    """The first fault that reached an output of a replayed pass; ``None`` where the outputs are as they are meant."""
    bad = [x for x in seen.outputs if is_measured(x) and not is_finite(x)]
    birth = seen.watch.lineage.first(bad)
    return None if birth is None or birth.is_quiet else birth


def fault_of_loss(loss: float, seen: Iterable[Seen], step: int) -> Fault:
    """The loss itself is at fault: all outputs that it was made of are finite.

    Args:
        loss: its value.
        seen: the replayed passes, whose last output tells range and shape.
        step: applied steps before it.
    """
    outputs = [values for one in seen for values in ranges_of(list(one.outputs))]
    last = outputs[-1] if outputs else None
    return Fault(
        site=LOSS,
        operation="loss",
        direction="forward",
        operand="",
        kind="NaN" if math.isnan(loss) else "inf" if loss > 0 else "-inf",
        dtype="" if last is None else last.dtype,
        shape=() if last is None else last.shape,
        low=0.0 if last is None else last.low,
        high=0.0 if last is None else last.high,
        limit=math.inf,
        cause=causes.LOSS_FAULT,
        step=step,
        detail=_FINITE,
    )
