"""Counted numbers in 16 bits: positions and counters of which several become one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ..._finding import Finding
from .._call import Call, short
from .._place import shown
from .._values import NARROW
from ._accumulators import STOPS
from ._detector import Detector


class CountedDetector(Detector):
    """Whole numbers that count and that a 16-bit dtype merges: ``arange``, ``cumsum``, positions that are cast.

    bf16 holds every whole number up to 256, fp16 up to 2,048. Told as a warning where one was lost: an ``arange`` or a
    cast with equal neighbours, a sum of ones that stands still. A cast of measured values (pixels) is none.
    """

    operations = frozenset({"arange", "linspace", "cumsum", "_to_copy", "cumsum_"})

    def see(self, call: Call) -> Iterable[Finding]:
        """What counts, or casts a count."""
        if call.result is None or call.place.backward:
            return
        made, facts = call.result
        if facts.dtype not in NARROW or facts.amax < STOPS[facts.dtype]:
            return
        lost = self._lost(call, made)
        if lost:
            yield call.finding(
                "warning",
                "positions in 16 bits",
                f"{shown(call.name)} gives whole numbers up to {facts.amax:g} in {short(facts.dtype)}: {lost} of "
                f"{made.numel()} are no longer themselves",
                evidence={"largest": facts.amax, "lost": lost, "dtype": short(facts.dtype)},
                threshold=f"{short(facts.dtype)} holds whole numbers up to {STOPS[facts.dtype]}",
                remedy="keep positions and counts in integers or fp32: torch.arange(n, dtype=torch.float32)",
            )

    def _lost(self, call: Call, made: Tensor) -> int:
        """How many of the counted numbers are not themselves in 16 bits."""
        with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            if call.name in ("arange", "linspace"):
                wide = made.double().reshape(-1)
                return int((wide[1:] == wide[:-1]).sum())
            source = call.args[0]
            if not isinstance(source, Tensor) or source.numel() < 2:
                return 0
            if call.place.by == "counted" and not source.is_floating_point():
                return 0  # the recipe's own try: it gives the model fp32 instead
            if call.name.startswith("cumsum"):
                exact = source.detach().double().cumsum(int(call.args[1]))
                is_counted = bool((source == source.round()).all())
                return int(((made.double() - exact).abs() >= 0.5).sum()) if is_counted else 0
            if call.name == "_to_copy" and _counts(source):
                return int((made.double() != source.detach().double()).sum())
        return 0


def _counts(x: Tensor) -> bool:
    """Whether a tensor is integers, or a run of whole numbers at equal distances."""
    if not x.is_floating_point():
        return x.dtype != torch.bool and not x.is_complex()
    flat = x.detach().double().reshape(-1)
    steps = flat[1:] - flat[:-1]
    is_whole = bool((flat == flat.round()).all())
    return is_whole and bool(steps[0] != 0) and float((steps == steps[0]).double().mean()) > 0.9
