"""Bounds just below 1 that 16 bits round to 1: ``clamp(p, max=1 - 1e-6)``."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..._finding import Finding
from .._call import Call, elsewhere, short
from .._place import shown
from .._values import NARROW
from ._detector import Detector

_REMEDY = "clamp in fp32 (p.float().clamp(...)), or compute from logits"


class BoundDetector(Detector):
    """A clamp of a 16-bit tensor to less than 1 whose bound is 1 in its dtype.

    bf16 has nothing between 1 - 2^-8 and 1, fp16 nothing between 1 - 2^-11 and 1. A fault where a value reached 1, a
    warning else; a note where the recipe computes in fp32 here.
    """

    operations = frozenset({"clamp", "clamp_", "clamp_max", "clamp_max_", "minimum"})

    def see(self, call: Call) -> Iterable[Finding]:
        """A clamp."""
        facts = call.facts(0)
        if facts is None or call.place.backward or call.result is None:
            return
        dtype = facts.dtype if facts.dtype in NARROW else facts.kept
        bound = next((n for n in call.numbers if 0.9 < abs(n) < 1), None)
        if dtype is None or bound is None or abs(float(torch.tensor(bound, dtype=dtype))) != 1:
            return
        is_lost = facts.dtype in NARROW
        reaches = call.result[1].amax >= 1
        yield call.finding(
            "note" if not is_lost else "fault" if reaches else "warning",
            "bound that vanishes",
            f"{shown(call.name)} of a {short(dtype)} tensor to {bound:.8g}, which "
            + ("is 1 there: log(1 - p) and division by 1 - p meet 0" if is_lost else "would be 1 there; not in fp32"),
            evidence={"bound": bound, "largest result": call.result[1].high},
            threshold=f"{short(dtype)} has no number between {1 - torch.finfo(dtype).eps / 2:.6g} and 1",
            remedy=_REMEDY if is_lost else elsewhere(_REMEDY),
        )
